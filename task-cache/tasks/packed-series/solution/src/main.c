#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "codec.h"

__extension__ typedef __int128 wide;

static void print_wide(wide n)
{
    char text[48];
    size_t at = sizeof text - 1;
    bool negative = n < 0;

    text[at] = '\0';
    do {
        int digit = (int)(n % 10);

        text[--at] = (char)('0' + (digit < 0 ? -digit : digit));
        n /= 10;
    } while (n);
    if (negative)
        text[--at] = '-';
    fputs(text + at, stdout);
}

static void print_stat(const struct series *s)
{
    size_t missing = 0;
    int64_t min = INT64_MAX, max = INT64_MIN;
    wide sum = 0;

    for (size_t i = 0; i < s->count; i++) {
        if (!s->present[i]) {
            missing++;
            continue;
        }
        if (s->value[i] < min)
            min = s->value[i];
        if (s->value[i] > max)
            max = s->value[i];
        sum += s->value[i];
    }
    printf("count=%zu missing=%zu ", s->count, missing);
    if (missing == s->count)
        printf("min=? max=? sum=");
    else
        printf("min=%" PRId64 " max=%" PRId64 " sum=", min, max);
    print_wide(sum);
    putchar('\n');
}

int main(int argc, char **argv)
{
    struct buffer in = {0}, out = {0};
    struct series s = {0};
    const char *wrong;
    bool pack;

    if (argc != 2 || (strcmp(argv[1], "pack") && strcmp(argv[1], "unpack") && strcmp(argv[1], "stat"))) {
        fputs("usage: dpack pack|unpack|stat\n", stderr);
        return 2;
    }
    pack = !strcmp(argv[1], "pack");
    buffer_read_stdin(&in);
    wrong = pack ? text_parse(&s, &in) : packed_parse(&s, &in);
    if (wrong) {
        fprintf(stderr, "dpack: %s\n", wrong);
    } else if (pack) {
        packed_write(&s, &out);
        fwrite(out.data, 1, out.used, stdout);
    } else if (!strcmp(argv[1], "stat")) {
        print_stat(&s);
    } else {
        for (size_t i = 0; i < s.count; i++) {
            if (s.present[i])
                printf("%" PRId64 "\n", s.value[i]);
            else
                puts("?");
        }
    }
    buffer_free(&in);
    buffer_free(&out);
    series_free(&s);
    if (!wrong && (fflush(stdout) || ferror(stdout)))
        return 1;
    return wrong ? 3 : 0;
}
