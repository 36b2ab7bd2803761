/* jinja_ops.c - operators with Python's meaning: 64-bit integers that refuse to overflow, floats,
 * text, lists.
 * SPDX-License-Identifier: MIT
 */
#include <math.h>
#include <string.h>

#include "text/jinja_run.h"

static mica_status overflow(void)
{
    return mica__fail(MICA_E_ARGUMENT, "an integer result does not fit 64 bits");
}

static const char *op_text(int op)
{
    if (op == OP_IN)
        return "in";
    if (op == OP_NOT_IN)
        return "not in";
    return op == TOKEN_POW ? "** or pow()" : mica__jinja_token_name((jinja_token_kind)op);
}

static mica_status unsupported(int op, const jinja_value *a, const jinja_value *b)
{
    if (a->type == JINJA_UNDEFINED)
        return mica__jinja_undefined_used(a);
    if (b->type == JINJA_UNDEFINED)
        return mica__jinja_undefined_used(b);
    if (a->type == JINJA_BIGINT || b->type == JINJA_BIGINT)
        return overflow();
    if (op == TOKEN_ADD && a->type == JINJA_STRING)
        return mica__fail(MICA_E_ARGUMENT, "can only concatenate str (not \"%s\") to str",
                          mica__jinja_type_name(b));
    if (op == TOKEN_ADD && (a->type == JINJA_LIST || a->type == JINJA_TUPLE))
        return mica__fail(MICA_E_ARGUMENT, "can only concatenate %s (not \"%s\") to %s",
                          mica__jinja_type_name(a), mica__jinja_type_name(b),
                          mica__jinja_type_name(a));
    return mica__fail(MICA_E_ARGUMENT, "unsupported operand type(s) for %s: '%s' and '%s'",
                      op_text(op), mica__jinja_type_name(a), mica__jinja_type_name(b));
}

/* --- numbers ---------------------------------------------------------------------------------- */

static mica_status by_zero(void)
{
    return mica__fail(MICA_E_ARGUMENT, "division by zero");
}

/* Quotient rounded down and the remainder that goes with it. */
static mica_status floor_divide(int64_t a, int64_t b, int64_t *quotient, int64_t *remainder)
{
    if (b == 0)
        return by_zero();
    if (b == -1) {
        *remainder = 0;
        return __builtin_sub_overflow(0, a, quotient) ? overflow() : MICA_OK;
    }
    *quotient = a / b;
    *remainder = a % b;
    if (*remainder && (*remainder < 0) != (b < 0)) {
        *quotient -= 1;
        *remainder += b;
    }
    return MICA_OK;
}

static mica_status int_power(int64_t base, int64_t exponent, jinja_value *out)
{
    if (exponent < 0) {
        if (base == 0)
            MICA_FAIL(MICA_E_ARGUMENT, "0.0 cannot be raised to a negative power");
        *out = mica__jinja_float(pow((double)base, (double)exponent));
        return MICA_OK;
    }
    int64_t result = 1;
    for (bool too_large = false; exponent; exponent >>= 1) {
        if (exponent & 1 && (too_large || __builtin_mul_overflow(result, base, &result)))
            return overflow();
        too_large = too_large || __builtin_mul_overflow(base, base, &base);
    }
    *out = mica__jinja_int(result);
    return MICA_OK;
}

static mica_status int_binary(int op, int64_t a, int64_t b, jinja_value *out)
{
    int64_t result = 0, rest;
    bool failed = false;
    switch (op) {
    case TOKEN_ADD:
        failed = __builtin_add_overflow(a, b, &result);
        break;
    case TOKEN_SUB:
        failed = __builtin_sub_overflow(a, b, &result);
        break;
    case TOKEN_MUL:
        failed = __builtin_mul_overflow(a, b, &result);
        break;
    case TOKEN_DIV:
        if (b == 0)
            return by_zero();
        *out = mica__jinja_float((double)a / (double)b);
        return MICA_OK;
    case TOKEN_FLOORDIV:
        MICA_TRY(floor_divide(a, b, &result, &rest));
        break;
    case TOKEN_MOD:
        if (b == -1)
            break;
        MICA_TRY(floor_divide(a, b, &rest, &result));
        break;
    default:
        return int_power(a, b, out);
    }
    if (failed)
        return overflow();
    *out = mica__jinja_int(result);
    return MICA_OK;
}

/* Python's float remainder has the sign of the divisor. */
static double float_modulo(double a, double b)
{
    double rest = fmod(a, b);
    if (rest == 0)
        return copysign(0.0, b);
    return (rest < 0) != (b < 0) ? rest + b : rest;
}

static double float_floor_divide(double a, double b)
{
    const double rest = fmod(a, b);
    double quotient = (a - rest) / b;
    if (rest != 0 && (rest < 0) != (b < 0))
        quotient -= 1;
    if (quotient == 0)
        return copysign(0.0, a / b);
    const double down = floor(quotient);
    return quotient - down > 0.5 ? down + 1 : down;
}

static mica_status float_binary(int op, double a, double b, jinja_value *out)
{
    double result;
    if (b == 0 && (op == TOKEN_DIV || op == TOKEN_FLOORDIV || op == TOKEN_MOD))
        return by_zero();
    switch (op) {
    case TOKEN_ADD:
        result = a + b;
        break;
    case TOKEN_SUB:
        result = a - b;
        break;
    case TOKEN_MUL:
        result = a * b;
        break;
    case TOKEN_DIV:
        result = a / b;
        break;
    case TOKEN_FLOORDIV:
        result = float_floor_divide(a, b);
        break;
    case TOKEN_MOD:
        result = float_modulo(a, b);
        break;
    default:
        if (a == 0 && b < 0)
            MICA_FAIL(MICA_E_ARGUMENT, "0.0 cannot be raised to a negative power");
        if (a < 0 && isfinite(b) && b != floor(b))
            MICA_FAIL(MICA_E_UNSUPPORTED, "a complex result");
        result = pow(a, b);
        if (isinf(result) && isfinite(a) && isfinite(b))
            MICA_FAIL(MICA_E_ARGUMENT, "a power is beyond the range of a float");
    }
    *out = mica__jinja_float(result);
    return MICA_OK;
}

/* --- text and lists --------------------------------------------------------------------------- */

mica_status mica__jinja_repeat(jinja_run *run, const jinja_value *what, int64_t times,
                               jinja_value *out)
{
    if (times < 0)
        times = 0;
    if (what->type == JINJA_STRING) {
        jinja_bytes *made = mica__jinja_bytes_new(&run->heap, 0);
        if (!made)
            return run->heap.status;
        for (int64_t i = 0; i < times && what->text.length; i++) {
            MICA_TRY(mica__jinja_charge(&run->heap, 1));
            MICA_TRY(mica__jinja_put_text(&run->heap, made, what));
        }
        *out = mica__jinja_made(made);
        out->markup = what->markup;
        return MICA_OK;
    }
    jinja_list *list = mica__jinja_list_new(&run->heap, 0);
    if (!list)
        return run->heap.status;
    for (int64_t i = 0; i < times && what->list->n; i++) {
        MICA_TRY(mica__jinja_charge(&run->heap, what->list->n));
        for (int64_t k = 0; k < what->list->n; k++)
            MICA_TRY(mica__jinja_list_add(&run->heap, list, &what->list->items[k]));
    }
    *out = mica__jinja_of_list(what->type, what->type == JINJA_LIST ? "list" : "tuple", list);
    return MICA_OK;
}

static bool repeatable(const jinja_value *v)
{
    return v->type == JINJA_STRING || v->type == JINJA_LIST || v->type == JINJA_TUPLE;
}

/* Where one side is safe HTML, the other is escaped. */
static mica_status add_text(jinja_run *run, const jinja_value *a, const jinja_value *b,
                            jinja_value *out)
{
    if (!a->markup && !b->markup)
        return mica__jinja_concat(&run->heap, a, b, out);
    jinja_value left, right;
    MICA_TRY(mica__jinja_escape(run, a, &left));
    MICA_TRY(mica__jinja_escape(run, b, &right));
    MICA_TRY(mica__jinja_concat(&run->heap, &left, &right, out));
    out->markup = true;
    return MICA_OK;
}

mica_status mica__jinja_binary(jinja_run *run, int op, const jinja_value *a, const jinja_value *b,
                               jinja_value *out)
{
    int64_t i, j;
    double x, y;
    if (op == TOKEN_ADD && a->type == JINJA_STRING && b->type == JINJA_STRING)
        return add_text(run, a, b, out);
    if (op == TOKEN_MOD && a->type == JINJA_STRING)
        return mica__jinja_percent(run, a, b, out);
    if (mica__jinja_as_int(a, &i) && mica__jinja_as_int(b, &j))
        return int_binary(op, i, j, out);
    if (mica__jinja_as_float(a, &x) && mica__jinja_as_float(b, &y))
        return float_binary(op, x, y, out);
    if (op == TOKEN_ADD && a->type == b->type &&
        (a->type == JINJA_LIST || a->type == JINJA_TUPLE)) {
        *out = *a;
        return mica__jinja_list_concat(&run->heap, a->list, b->list, &out->list);
    }
    if (op == TOKEN_MUL && repeatable(a) && mica__jinja_as_int(b, &j))
        return mica__jinja_repeat(run, a, j, out);
    if (op == TOKEN_MUL && repeatable(b) && mica__jinja_as_int(a, &i))
        return mica__jinja_repeat(run, b, i, out);
    return unsupported(op, a, b);
}

mica_status mica__jinja_unary(int op, const jinja_value *a, jinja_value *out)
{
    int64_t i;
    if (a->type == JINJA_UNDEFINED)
        return mica__jinja_undefined_used(a);
    if (a->type == JINJA_FLOAT) {
        *out = mica__jinja_float(op == TOKEN_SUB ? -a->number : a->number);
        return MICA_OK;
    }
    if (!mica__jinja_as_int(a, &i))
        MICA_FAIL(MICA_E_ARGUMENT, "bad operand type for unary %s: '%s'", op_text(op),
                  mica__jinja_type_name(a));
    if (op == TOKEN_SUB && __builtin_sub_overflow(0, i, &i))
        return overflow();
    *out = mica__jinja_int(i);
    return MICA_OK;
}

/* --- relations -------------------------------------------------------------------------------- */

static mica_status any_equal(jinja_run *run, const jinja_value *items, int64_t n,
                             const jinja_value *item, bool *result)
{
    *result = false;
    for (int64_t i = 0; i < n && !*result; i++)
        *result = mica__jinja_equal(&run->heap, &items[i], item);
    return run->heap.status;
}

mica_status mica__jinja_contains(jinja_run *run, const jinja_value *container,
                                 const jinja_value *item, bool *result)
{
    if (container->type == JINJA_STRING) {
        if (item->type == JINJA_UNDEFINED)
            return mica__jinja_undefined_used(item);
        if (item->type != JINJA_STRING)
            MICA_FAIL(MICA_E_ARGUMENT, "'in <string>' requires string as left operand, not %s",
                      mica__jinja_type_name(item));
        MICA_TRY(mica__jinja_charge(&run->heap, (int64_t)container->text.length / 64));
        *result = mica__jinja_find(container, item, 0) >= 0;
        return MICA_OK;
    }
    if (container->type == JINJA_DICT) {
        if (!mica__jinja_hashable(&run->heap, item))
            return mica__jinja_unhashable(&run->heap, item);
        *result = mica__jinja_dict_find(&run->heap, container->dict, item) != NULL;
        return run->heap.status;
    }
    if (!mica__jinja_iterable(container))
        MICA_FAIL(MICA_E_ARGUMENT, "argument of type '%s' is not iterable",
                  mica__jinja_type_name(container));
    if (container->type == JINJA_RANGE) {
        const jinja_range *r = container->range;
        int64_t i, from_start;
        *result = mica__jinja_as_int(item, &i) && r->n > 0 &&
                  !__builtin_sub_overflow(i, r->start, &from_start) && from_start % r->step == 0 &&
                  from_start / r->step >= 0 && from_start / r->step < r->n;
        return MICA_OK;
    }
    if (container->type == JINJA_ITERATOR) { /* used up as far as the item is found */
        jinja_list *list = container->list;
        for (*result = false; !*result && list->at < list->n; list->at++)
            *result = mica__jinja_equal(&run->heap, &list->items[list->at], item);
        return run->heap.status;
    }
    jinja_value *items;
    int64_t n;
    MICA_TRY(mica__jinja_iterate(run, container, &items, &n));
    return any_equal(run, items, n, item, result);
}

static mica_status order(jinja_run *run, int op, const jinja_value *a, const jinja_value *b,
                         bool *result)
{
    const jinja_order o = mica__jinja_compare(&run->heap, a, b);
    MICA_TRY(run->heap.status);
    if (!o.comparable) {
        if (a->type == JINJA_UNDEFINED)
            return mica__jinja_undefined_used(a);
        if (b->type == JINJA_UNDEFINED)
            return mica__jinja_undefined_used(b);
        MICA_FAIL(MICA_E_ARGUMENT, "'%s' not supported between instances of '%s' and '%s'",
                  op_text(op), mica__jinja_type_name(a), mica__jinja_type_name(b));
    }
    *result = !o.unordered && (op == TOKEN_LT   ? o.order < 0
                               : op == TOKEN_LE ? o.order <= 0
                               : op == TOKEN_GT ? o.order > 0
                                                : o.order >= 0);
    return MICA_OK;
}

mica_status mica__jinja_less(jinja_run *run, const jinja_value *a, const jinja_value *b,
                             bool *result)
{
    return order(run, TOKEN_LT, a, b, result);
}

mica_status mica__jinja_relation(jinja_run *run, int op, const jinja_value *a, const jinja_value *b,
                                 bool *result)
{
    switch (op) {
    case TOKEN_EQ:
    case TOKEN_NE:
        *result = mica__jinja_equal(&run->heap, a, b) == (op == TOKEN_EQ);
        return run->heap.status;
    case OP_IN:
        return mica__jinja_contains(run, b, a, result);
    case OP_NOT_IN:
        MICA_TRY(mica__jinja_contains(run, b, a, result));
        *result = !*result;
        return MICA_OK;
    default:
        return order(run, op, a, b, result);
    }
}
