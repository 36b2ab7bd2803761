/* math_body.h - the functions of one float, computed in double, over any width of double lanes.
 *
 * No include guard: math_f32.h includes it for one lane, vec_<level>.h for a register. The includer
 * defines the type vd and the operations vd_*; every function below is a fixed list of them, so all
 * levels give the same bits. Arguments are doubles that hold floats, results are within 2^-31 of
 * the exact value, relative, so one rounding to float leaves less than 0.51 ulp.
 *
 * Polynomials interpolate the function at the Chebyshev nodes of the interval (degree chosen for a
 * relative error below 2^-33); coefficients ascend.
 * SPDX-License-Identifier: MIT
 */

/* p * x + c for one more coefficient of a polynomial in Horner's order. */
#define HORNER(p, x, c) vd_fma(p, x, vd_set(c))

/* The rounder: adding it leaves the nearest integer (ties to even) in the low bits. */
#define ROUNDER 0x1.8p52

/* expm1(r) / r on |r| <= ln 2 / 2 (2^-37.5). */
static inline vd d_expm1_over(vd r)
{
    vd p = vd_set(0x1.a136bf03ec612p-16);
    p = HORNER(p, r, 0x1.a17e052cd2c8fp-13);
    p = HORNER(p, r, 0x1.6c166bde96885p-10);
    p = HORNER(p, r, 0x1.1110a6173845ep-7);
    p = HORNER(p, r, 0x1.55555565c7e0ep-5);
    p = HORNER(p, r, 0x1.5555557e7777ep-3);
    p = HORNER(p, r, 0x1.fffffffffe062p-2);
    return HORNER(p, r, 0x1.fffffffff61ddp-1);
}

/* x = n ln 2 + r: r, and n in the low bits of *rounded. |x| <= 700 or NaN. */
static inline vd d_reduce_exp(vd x, vd *rounded)
{
    const vd t = vd_fma(x, vd_set(0x1.71547652b82fep+0), vd_set(ROUNDER));
    const vd n = vd_sub(t, vd_set(ROUNDER));
    *rounded = t;
    return vd_fnma(n, vd_set(0x1.62e42fefa39efp-1), x);
}

/* e^x for |x| <= 700; arguments beyond are taken as +-700. NaN stays. */
static inline vd d_exp(vd x)
{
    x = vd_sel(vd_lt(x, vd_set(-700.0)), vd_set(-700.0), x);
    x = vd_sel(vd_lt(vd_set(700.0), x), vd_set(700.0), x);
    vd t;
    const vd r = d_reduce_exp(x, &t);
    return vd_scale(vd_fma(d_expm1_over(r), r, vd_set(1.0)), t);
}

/* e^x - 1 for 0 <= x <= 700 or NaN. */
static inline vd d_expm1(vd x)
{
    vd t;
    const vd r = d_reduce_exp(x, &t);
    const vd power = vd_scale(vd_set(1.0), t);
    return vd_fma(power, vd_mul(d_expm1_over(r), r), vd_sub(power, vd_set(1.0)));
}

/* log of a float: subnormals are normal in double. log(0) = -inf, of negatives NaN. */
static inline vd d_log(vd x)
{
    const vd exponent = vd_sub(vd_or(vd_shr52(x), vd_set(0x1p52)), vd_set(0x1p52 + 1023));
    const vd mantissa = vd_or(vd_and(x, vd_bits(0x000fffffffffffff)), vd_set(1.0));
    const vm big = vd_lt(vd_set(0x1.6a09e667f3bcdp+0), mantissa);
    const vd m = vd_sel(big, vd_mul(mantissa, vd_set(0.5)), mantissa);
    const vd e = vd_sel(big, vd_add(exponent, vd_set(1.0)), exponent);
    /* log m = 2 atanh(s), s = (m - 1) / (m + 1) (2^-36) */
    const vd s = vd_div(vd_sub(m, vd_set(1.0)), vd_add(m, vd_set(1.0)));
    const vd z = vd_mul(s, s);
    vd p = vd_set(0x1.8c92867b49a01p-3);
    p = HORNER(p, z, 0x1.c67a84e8a4ba0p-3);
    p = HORNER(p, z, 0x1.249324907dae3p-2);
    p = HORNER(p, z, 0x1.999998ca249fbp-2);
    p = HORNER(p, z, 0x1.5555555564fdap-1);
    const vd log_m = vd_fma(vd_mul(s, z), p, vd_add(s, s));
    vd y = vd_fma(e, vd_set(0x1.62e42fefa39efp-1), log_m);
    y = vd_sel(vd_lt(x, vd_set(__builtin_inf())), y, vd_mul(x, x)); /* inf, NaN */
    y = vd_sel(vd_lt(x, vd_set(0x1p-160)), vd_set(-__builtin_inf()), y);
    return vd_sel(vd_lt(x, vd_set(0.0)), vd_set(__builtin_nan("")), y);
}

/* x = n pi/2 + r: r, and n (mod 2^32) in the low bits of *rounded. Below 2^36 the first step is
 * exact: every term is a multiple of 2^-52. Beyond, lanes go through mica__reduce_trig. */
static inline vd d_reduce_trig(vd x, vd *rounded)
{
    vd t = vd_fma(x, vd_set(0x1.45f306dc9c883p-1), vd_set(ROUNDER));
    const vd n = vd_sub(t, vd_set(ROUNDER));
    vd r = vd_fnma(n, vd_set(0x1.921fb54442d18p+0), x);
    r = vd_fnma(n, vd_set(0x1.1a62633145c07p-54), r);
    if (!vm_all(vd_lt(vd_abs(x), vd_set(0x1p36)))) {
        double lanes[VD_LANES], rest[VD_LANES], turns[VD_LANES];
        vd_store(lanes, x);
        vd_store(rest, r);
        vd_store(turns, t);
        for (int i = 0; i < VD_LANES; i++)
            if (!(__builtin_fabs(lanes[i]) < 0x1p36))
                rest[i] = mica__reduce_trig(lanes[i], &turns[i]);
        r = vd_load(rest);
        t = vd_load(turns);
    }
    *rounded = t;
    return r;
}

/* sin(n pi/2 + r), n in the low bits of t. */
static inline vd d_sin_quadrant(vd r, vd t)
{
    const vd z = vd_mul(r, r);
    vd s = vd_set(-0x1.aa27435ae36f6p-26);
    s = HORNER(s, z, 0x1.71d9a79f7c8bfp-19);
    s = HORNER(s, z, -0x1.a019fd9820cb8p-13);
    s = HORNER(s, z, 0x1.1111110fd28f7p-7);
    s = HORNER(s, z, -0x1.5555555555166p-3);
    const vd sine = vd_mul(r, vd_fma(z, s, vd_set(1.0))); /* keeps -0 */
    vd c = vd_set(-0x1.24740198bcf0bp-22);
    c = HORNER(c, z, 0x1.a01295104b6a7p-16);
    c = HORNER(c, z, -0x1.6c16bae0eeeadp-10);
    c = HORNER(c, z, 0x1.555555514b595p-5);
    c = HORNER(c, z, -0x1.fffffffffe677p-2);
    const vd cosine = vd_fma(z, c, vd_set(1.0));
    const vd y = vd_sel(vm_sign(vd_shl(t, 63)), cosine, sine);
    return vd_xor(y, vd_and(vd_shl(t, 62), vd_set(-0.0)));
}

static inline vd d_sin(vd x)
{
    vd t;
    const vd r = d_reduce_trig(x, &t);
    return d_sin_quadrant(r, t);
}

static inline vd d_cos(vd x)
{
    vd t;
    const vd r = d_reduce_trig(x, &t);
    return d_sin_quadrant(r, vd_add(t, vd_set(1.0)));
}

static inline vd d_tanh(vd x)
{
    const vd a = vd_abs(x);
    const vd em1 = d_expm1(vd_sel(vd_lt(vd_set(40.0), a), vd_set(80.0), vd_add(a, a)));
    const vd y = vd_div(em1, vd_add(em1, vd_set(2.0)));
    return vd_or(y, vd_and(x, vd_set(-0.0)));
}

/* 1 + e^-x */
static inline vd d_logistic_divisor(vd x)
{
    return vd_add(d_exp(vd_xor(x, vd_set(-0.0))), vd_set(1.0));
}

static inline vd d_sigmoid(vd x)
{
    return vd_div(vd_set(1.0), d_logistic_divisor(x));
}

/* x times weight(x), which tends to 0 at -inf faster than x grows: -0 there. */
static inline vd d_gated(vd x, vd y)
{
    return vd_sel(vd_lt(x, vd_set(-0x1p126)), vd_set(-0.0), y);
}

static inline vd d_silu(vd x)
{
    return d_gated(x, vd_div(x, d_logistic_divisor(x)));
}

/* x/2 (1 + tanh(u)) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3). */
static inline vd d_gelu_tanh(vd x)
{
    const vd cube = vd_mul(vd_mul(x, x), x);
    const vd u = vd_mul(vd_set(0x1.9884533d43651p+0), vd_fma(cube, vd_set(0.044715), x));
    return d_gated(x, vd_div(x, d_logistic_divisor(u)));
}

/* erfc(a) for a >= 0: e^(-a^2) P(t) / (1 + 2a), t = (a - 3) / (a + 3) (2^-33.3 on [0, inf)). */
static inline vd d_erfc(vd a)
{
    const vd t = vd_div(vd_sub(a, vd_set(3.0)), vd_add(a, vd_set(3.0)));
    vd p = vd_set(-0x1.1ad226d799fd3p-23);
    p = HORNER(p, t, -0x1.726e631e87fedp-17);
    p = HORNER(p, t, 0x1.22205d2b98782p-18);
    p = HORNER(p, t, 0x1.dabfe2cbabdfbp-14);
    p = HORNER(p, t, -0x1.b76b6c6504d8ap-14);
    p = HORNER(p, t, -0x1.9462668781995p-11);
    p = HORNER(p, t, 0x1.ef123531e4ad7p-10);
    p = HORNER(p, t, 0x1.4b175b17fa1f9p-9);
    p = HORNER(p, t, -0x1.8574a5bca62d4p-6);
    p = HORNER(p, t, 0x1.17cae241605e6p-4);
    p = HORNER(p, t, -0x1.e88b80e716b35p-4);
    p = HORNER(p, t, 0x1.09835e25a6cebp-3);
    p = HORNER(p, t, -0x1.85a15c4f8dee7p-5);
    p = HORNER(p, t, -0x1.15c084819cc10p-3);
    p = HORNER(p, t, 0x1.40c522d7e4987p+0);
    const vd decay = d_exp(vd_xor(vd_mul(a, a), vd_set(-0.0)));
    return vd_div(vd_mul(decay, p), vd_fma(a, vd_set(2.0), vd_set(1.0)));
}

static inline vd d_erf(vd x)
{
    const vd z = vd_mul(x, x);
    vd p = vd_set(0x1.1c22044636b1ep-20);
    p = HORNER(p, z, -0x1.d2a9743488182p-17);
    p = HORNER(p, z, 0x1.f57bc9c6f0ff4p-14);
    p = HORNER(p, z, -0x1.bfe1117450466p-11);
    p = HORNER(p, z, 0x1.5658875581b74p-8);
    p = HORNER(p, z, -0x1.b82cbaad7b90cp-6);
    p = HORNER(p, z, 0x1.ce2f20a59af5ap-4);
    p = HORNER(p, z, -0x1.812746addf34ap-2);
    p = HORNER(p, z, 0x1.20dd750428c98p+0);
    const vd a = vd_sel(vd_lt(vd_set(12.0), vd_abs(x)), vd_set(12.0), vd_abs(x));
    const vd far = vd_or(vd_sub(vd_set(1.0), d_erfc(a)), vd_and(x, vd_set(-0.0)));
    return vd_sel(vd_lt(vd_abs(x), vd_set(1.0)), vd_mul(x, p), far);
}

/* x/2 (1 + erf(x / sqrt 2)): half of erfc on the negative side, 1 less that half on the other. */
static inline vd d_gelu(vd x)
{
    const vd a = vd_mul(vd_abs(x), vd_set(0x1.6a09e667f3bcdp-1));
    const vd tail = vd_mul(vd_set(0.5), d_erfc(vd_sel(vd_lt(vd_set(30.0), a), vd_set(30.0), a)));
    const vd share = vd_sel(vd_lt(x, vd_set(0.0)), tail, vd_sub(vd_set(1.0), tail));
    return d_gated(x, vd_mul(x, share));
}

#undef HORNER
#undef ROUNDER
