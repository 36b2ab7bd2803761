/* vec_math.h - functions of sixteen floats, over the operations of vec_<level>.h.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_BACKEND_VEC_MATH_H
#define MICA_BACKEND_VEC_MATH_H

#define V_THROUGH_DOUBLE(name)                                                                     \
    static inline v16 v_##name(v16 x)                                                              \
    {                                                                                              \
        v16d wide = v_widen(x);                                                                    \
        for (int i = 0; i < V16D_PARTS; i++)                                                       \
            wide.v[i] = d_##name(wide.v[i]);                                                       \
        return v_narrow(wide);                                                                     \
    }
V_THROUGH_DOUBLE(log)
V_THROUGH_DOUBLE(sin)
V_THROUGH_DOUBLE(cos)
V_THROUGH_DOUBLE(tanh)
V_THROUGH_DOUBLE(sigmoid)
V_THROUGH_DOUBLE(erf)
V_THROUGH_DOUBLE(silu)
V_THROUGH_DOUBLE(gelu)
V_THROUGH_DOUBLE(gelu_tanh)
#undef V_THROUGH_DOUBLE

/* gate(a) * b, rounded once. */
#define V_GATED(name, gate)                                                                        \
    static inline v16 name(v16 a, v16 b)                                                           \
    {                                                                                              \
        v16d wide = v_widen(a);                                                                    \
        const v16d factor = v_widen(b);                                                            \
        for (int i = 0; i < V16D_PARTS; i++)                                                       \
            wide.v[i] = vd_mul(gate(wide.v[i]), factor.v[i]);                                      \
        return v_narrow(wide);                                                                     \
    }
V_GATED(v_swiglu, d_silu)
V_GATED(v_geglu, d_gelu_tanh)
#undef V_GATED

#endif
