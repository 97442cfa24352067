/* census START: prints START, how many primes lie in START .. START + 99999, and the sum of their last digits. */
#include <stdio.h>
#include <stdlib.h>

static int prime(unsigned long n) {
    if (n < 2 || n % 2 == 0) return n == 2;
    for (unsigned long d = 3; d * d <= n; d += 2)
        if (n % d == 0) return 0;
    return 1;
}

int main(int argc, char **argv) {
    unsigned long start, count = 0, digits = 0;
    char *end;
    if (argc != 2 || (start = strtoul(argv[1], &end, 10), *end || end == argv[1])) return 2;
    for (unsigned long n = start; n < start + 100000; n++)
        if (prime(n)) count++, digits += n % 10;
    printf("%lu %lu %lu\n", start, count, digits);
    return 0;
}
