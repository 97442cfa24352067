#include "codec.h"

static bool blank(unsigned char c)
{
    return c == ' ' || c == '\t';
}

/* One line without its LF. */
static const char *parse_line(struct series *s, const unsigned char *p, const unsigned char *end)
{
    bool negative = false;
    uint64_t limit = INT64_MAX, n = 0;

    if (p < end && *p == '#')
        return NULL;
    if (end > p && end[-1] == '\r')
        end--;
    while (p < end && blank(*p))
        p++;
    while (end > p && blank(end[-1]))
        end--;
    if (p == end)
        return NULL;
    if (*p == '?' && end - p == 1) {
        series_add(s, false, 0);
        return NULL;
    }
    if (*p == '+' || *p == '-')
        negative = *p++ == '-';
    if (p == end)
        return "a sign without digits";
    limit += negative;
    for (; p < end; p++) {
        if (*p < '0' || *p > '9')
            return "not a number";
        unsigned digit = *p - '0';
        if (n > (limit - digit) / 10)
            return "a number that needs more than 64 bits";
        n = n * 10 + digit;
    }
    if (!negative)
        series_add(s, true, (int64_t)n);
    else
        series_add(s, true, n ? -(int64_t)(n - 1) - 1 : 0);
    return NULL;
}

const char *text_parse(struct series *s, const struct buffer *text)
{
    size_t start = 0;

    while (start < text->used) {
        size_t end = start;
        const char *wrong;

        while (end < text->used && text->data[end] != '\n')
            end++;
        wrong = parse_line(s, text->data + start, text->data + end);
        if (wrong)
            return wrong;
        start = end + 1;
    }
    return NULL;
}
