/* rho P A N GX GY QX QY SEED: prints the k with Q = kG on y^2 = x^3 + A x + B over F_P, the order N of G being prime.

   Pollard's rho with distinguished points (van Oorschot and Wiener): many additive walks from random combinations of G and
   Q; two walks that meet end in the same distinguished point, and their two combinations give k. One thread per CPU, each
   stepping a batch of walks whose inversions are shared (Montgomery's trick). */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t u64;
typedef unsigned __int128 u128;

enum { THREADS = 2, BATCH = 256, JUMPS = 64, TABLE = 1 << 20 };
static const u64 DISTINGUISHED = (1 << 15) - 1;

typedef struct { u64 x, y, g, q; } Point; /* coordinates in Montgomery form, and the combination gG + qQ it is */

static u64 p, minus_inverse, one, square, a_coefficient, order;
static Point generator, target, jump[JUMPS];
static Point table[TABLE];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int found;

static inline u64 mul(u64 a, u64 b) {
    u128 t = (u128)a * b;
    u64 m = (u64)t * minus_inverse;
    u64 r = (t + (u128)m * p) >> 64;
    return r >= p ? r - p : r;
}
static inline u64 sub(u64 a, u64 b) { return a >= b ? a - b : a + p - b; }
static inline u64 add_order(u64 a, u64 b) { a += b; return a >= order ? a - order : a; }

static u64 power(u64 a, u64 e) {
    u64 r = one;
    for (; e; e >>= 1, a = mul(a, a))
        if (e & 1) r = mul(r, a);
    return r;
}

/* The sum of two finite points of which neither is the other's negative. */
static Point sum(Point a, Point b) {
    u64 slope, up, down;
    if (a.x == b.x) {
        u64 xx = mul(a.x, a.x);
        up = sub(sub(sub(xx, sub(0, xx)), sub(0, xx)), sub(0, a_coefficient));
        down = sub(a.y, sub(0, a.y));
    } else {
        up = sub(b.y, a.y);
        down = sub(b.x, a.x);
    }
    slope = mul(up, power(down, p - 2));
    Point r = {sub(sub(mul(slope, slope), a.x), b.x), 0, add_order(a.g, b.g), add_order(a.q, b.q)};
    r.y = sub(mul(slope, sub(a.x, r.x)), a.y);
    return r;
}

static Point multiple(u64 k, Point a) { /* k > 0 */
    Point r;
    int any = 0;
    for (; k; k >>= 1, a = sum(a, a))
        if (k & 1) r = any ? sum(r, a) : a, any = 1;
    return r;
}

static u64 next(u64 *state) { /* splitmix64 */
    u64 z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static Point combination(u64 *state) {
    return sum(multiple(1 + next(state) % (order - 1), generator), multiple(1 + next(state) % (order - 1), target));
}

static u64 power_order(u64 a, u64 e) {
    u64 r = 1;
    for (; e; e >>= 1, a = (u128)a * a % order)
        if (e & 1) r = (u128)r * a % order;
    return r;
}

static void report(Point w) {
    pthread_mutex_lock(&lock);
    for (u64 i = (w.x >> 15) % TABLE;; i = (i + 1) % TABLE) {
        if (table[i].x == 0 && table[i].y == 0) {
            table[i] = w;
            break;
        }
        if (table[i].x == w.x) { /* g + qk = g' + q'k, or minus that if only the x are equal */
            u64 same = table[i].y == w.y;
            u64 up = add_order(w.g, same ? order - table[i].g : table[i].g);
            u64 down = add_order(same ? table[i].q : order - table[i].q, order - w.q);
            if (down && !found) {
                printf("%llu\n", (unsigned long long)((u128)up * power_order(down, order - 2) % order));
                found = 1;
            }
            break;
        }
    }
    pthread_mutex_unlock(&lock);
}

static void *work(void *seed) {
    u64 state = *(u64 *)seed, product[BATCH], delta[BATCH];
    Point walk[BATCH];
    for (int i = 0; i < BATCH; i++) walk[i] = combination(&state);
    while (!found) {
        for (int i = 0; i < BATCH; i++) {
            delta[i] = sub(jump[walk[i].x % JUMPS].x, walk[i].x);
            product[i] = i ? mul(product[i - 1], delta[i]) : delta[i];
        }
        u64 inverse = power(product[BATCH - 1], p - 2);
        for (int i = BATCH - 1; i >= 0; i--) {
            Point *w = &walk[i], *j = &jump[w->x % JUMPS];
            u64 slope = mul(sub(j->y, w->y), i ? mul(inverse, product[i - 1]) : inverse);
            inverse = mul(inverse, delta[i]);
            u64 x = sub(sub(mul(slope, slope), w->x), j->x);
            w->y = sub(mul(slope, sub(w->x, x)), w->y);
            w->x = x;
            w->g = add_order(w->g, j->g);
            w->q = add_order(w->q, j->q);
            if (((x >> 6) & DISTINGUISHED) == 0) {
                report(*w);
                *w = combination(&state);
            }
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    u64 v[9] = {0}, seeds[THREADS];
    pthread_t threads[THREADS];
    for (int i = 1; i < argc && i < 9; i++) v[i] = strtoull(argv[i], NULL, 10);
    p = v[1], order = v[3];
    u64 inverse = 1;
    for (int i = 0; i < 6; i++) inverse *= 2 - p * inverse;
    minus_inverse = -inverse;
    one = ((u128)1 << 64) % p;
    square = (u128)one * one % p;
    a_coefficient = mul(v[2], square);
    generator = (Point){mul(v[4], square), mul(v[5], square), 1, 0};
    target = (Point){mul(v[6], square), mul(v[7], square), 0, 1};
    u64 state = v[8];
    for (int i = 0; i < JUMPS; i++) jump[i] = combination(&state);
    for (int i = 0; i < THREADS; i++) {
        seeds[i] = v[8] + 1 + i;
        pthread_create(&threads[i], NULL, work, &seeds[i]);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    return 0;
}
