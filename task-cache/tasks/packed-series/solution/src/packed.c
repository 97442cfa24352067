#include <string.h>

#include "codec.h"

enum { BLOCK = 64 };

static uint64_t zigzag(uint64_t difference)
{
    return difference << 1 ^ (difference >> 63 ? UINT64_MAX : 0);
}

static uint64_t unzigzag(uint64_t z)
{
    return z >> 1 ^ (z & 1 ? UINT64_MAX : 0);
}

/* The signed value with these bits, without relying on what a conversion does. */
static int64_t as_signed(uint64_t bits)
{
    int64_t value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static void put_varint(struct buffer *b, uint64_t n)
{
    for (; n > 0x7f; n >>= 7)
        buffer_put(b, (unsigned char)(n & 0x7f) | 0x80);
    buffer_put(b, (unsigned char)n);
}

static void put_block(struct buffer *b, const uint64_t *z, size_t n)
{
    unsigned width = 0, filled = 0;
    unsigned char byte = 0;

    put_varint(b, z[0]);
    if (n == 1)
        return;
    for (size_t i = 1; i < n; i++)
        while (width < 64 && z[i] >> width)
            width++;
    buffer_put(b, (unsigned char)width);
    for (size_t i = 1; i < n; i++) {
        for (unsigned bit = 0; bit < width; bit++) {
            byte |= (unsigned char)((z[i] >> bit & 1) << filled);
            if (++filled == 8) {
                buffer_put(b, byte);
                byte = 0;
                filled = 0;
            }
        }
    }
    if (filled)
        buffer_put(b, byte);
}

void packed_write(const struct series *s, struct buffer *b)
{
    size_t missing = 0, n = 0;
    uint64_t z[BLOCK], before = 0;

    for (size_t i = 0; i < s->count; i++)
        missing += !s->present[i];
    for (const char *p = "DPK1"; *p; p++)
        buffer_put(b, (unsigned char)*p);
    buffer_put(b, missing > 0);
    put_varint(b, s->count);
    for (size_t i = 0; missing && i < s->count; i += 8) {
        unsigned char byte = 0;

        for (size_t k = i; k < i + 8 && k < s->count; k++)
            byte |= (unsigned char)(s->present[k] << (k - i));
        buffer_put(b, byte);
    }
    for (size_t i = 0; i < s->count; i++) {
        if (!s->present[i])
            continue;
        z[n++] = zigzag((uint64_t)s->value[i] - before);
        before = (uint64_t)s->value[i];
        if (n == BLOCK) {
            put_block(b, z, n);
            n = 0;
        }
    }
    if (n)
        put_block(b, z, n);
    uint32_t crc = crc32_of(b->data, b->used);
    for (int i = 0; i < 4; i++)
        buffer_put(b, (unsigned char)(crc >> 8 * i));
}

struct reader {
    const unsigned char *p, *end;
};

static bool get_varint(struct reader *r, uint64_t *n)
{
    *n = 0;
    for (unsigned shift = 0; shift < 64 && r->p < r->end; shift += 7) {
        unsigned char byte = *r->p++;

        if (shift == 63 && byte > 1)
            return false;
        *n |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

/* The next n values of a block, into `value`. */
static bool get_block(struct reader *r, uint64_t *value, size_t n, uint64_t before)
{
    uint64_t z;
    unsigned width = 0, taken = 0;

    if (!get_varint(r, &z))
        return false;
    value[0] = before + unzigzag(z);
    if (n == 1)
        return true;
    if (r->p == r->end || (width = *r->p++) > 64)
        return false;
    if ((size_t)(r->end - r->p) < ((n - 1) * width + 7) / 8)
        return false;
    for (size_t i = 1; i < n; i++) {
        z = 0;
        for (unsigned bit = 0; bit < width; bit++) {
            z |= (uint64_t)(*r->p >> taken & 1) << bit;
            if (++taken == 8) {
                taken = 0;
                r->p++;
            }
        }
        value[i] = value[i - 1] + unzigzag(z);
    }
    if (taken)
        r->p++;
    return true;
}

static bool read_series(struct series *s, struct reader *r)
{
    uint64_t count, value[BLOCK], before = 0, there = 0, taken = 0;
    const unsigned char *bitmap = NULL;
    size_t held = 0;

    if ((size_t)(r->end - r->p) < 5 || memcmp(r->p, "DPK1", 4))
        return false;
    bool missing = r->p[4] & 1;
    r->p += 5;
    if (!get_varint(r, &count))
        return false;
    if (missing) {
        if (count / 8 + (count % 8 != 0) > (uint64_t)(r->end - r->p))
            return false;
        bitmap = r->p;
        r->p += count / 8 + (count % 8 != 0);
        for (uint64_t i = 0; i < count; i++)
            there += bitmap[i / 8] >> i % 8 & 1;
    } else {
        there = count;
    }
    for (uint64_t i = 0; i < count; i++) {
        if (bitmap && !(bitmap[i / 8] >> i % 8 & 1)) {
            series_add(s, false, 0);
            continue;
        }
        if (taken % BLOCK == 0) {
            held = there - taken < BLOCK ? there - taken : BLOCK;
            if (!get_block(r, value, held, before))
                return false;
            before = value[held - 1];
        }
        series_add(s, true, as_signed(value[taken++ % BLOCK]));
    }
    return true;
}

const char *packed_parse(struct series *s, const struct buffer *packed)
{
    struct buffer again = {0};
    struct reader r;
    bool same;

    if (packed->used < 10)
        return "too short for a packed series";
    r.p = packed->data;
    r.end = packed->data + packed->used - 4;
    if (!read_series(s, &r))
        return "not a packed series, or cut off";
    /* There is one file for a series: whatever else may be wrong shows here. */
    packed_write(s, &again);
    same = again.used == packed->used && !memcmp(again.data, packed->data, again.used);
    buffer_free(&again);
    return same ? NULL : "damaged, or not written as the format says";
}
