/* Random numbers and elementary functions in float32, branch-free, so that a compiler turns loops over them into vector code.

   Random bits: Threefry4x32-20 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011), a
   function of a key, here of 64 bits, and a counter of 128. Block b of a call has the counters 16 b, ..., 16 b + 15 and
   so 64 words, whoever computes it. Normal numbers are Box and Muller's.

   Functions: the polynomials of Cephes' single-precision library (S. Moshier), within 2 units of the last place. NaN
   passes through all of them. */

#include <math.h>
#include <stdint.h>
#include <string.h>

#define LANES 16
#define BLOCK (4 * LANES) /* weights */
#define INLINE static inline __attribute__((always_inline))

INLINE float from_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

INLINE uint32_t to_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}

/* The second argument where the first is NaN: comparisons with it are false. */
INLINE float least(float x, float y) { return x < y ? x : y; }
INLINE float largest(float x, float y) { return x > y ? x : y; }

/* NaN where x is. */
INLINE float clamped(float x, float low, float high) {
    x = x < low ? low : x;
    return x > high ? high : x;
}

/* --- random bits */

INLINE uint32_t rotated(uint32_t x, int by) { return (x << by) | (x >> (32 - by)); }

#define MIX(a, b, by)                                                                                                  \
    a += b;                                                                                                            \
    b = rotated(b, by) ^ a;
#define FOUR_ROUNDS(p0, p1, q0, q1, r0, r1, s0, s1)                                                                    \
    MIX(x0, x1, p0) MIX(x2, x3, p1) MIX(x0, x3, q0) MIX(x2, x1, q1) MIX(x0, x1, r0) MIX(x2, x3, r1) MIX(x0, x3, s0) MIX(x2, x1, s1)
#define EVEN_ROUNDS FOUR_ROUNDS(10, 26, 11, 21, 13, 27, 23, 5)
#define ODD_ROUNDS FOUR_ROUNDS(6, 20, 17, 11, 25, 10, 18, 20)
#define ADD_KEY(a, b, c, d, number)                                                                                    \
    x0 += a;                                                                                                           \
    x1 += b;                                                                                                           \
    x2 += c;                                                                                                           \
    x3 += (d) + (number);

/* Word k of counter (16 block + lane, stream) at words[16 k + lane]. */
INLINE void threefry(uint64_t key, uint64_t block, uint64_t stream, uint32_t *restrict words) {
    const uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32), k4 = 0x1BD11BDAu ^ k0 ^ k1; /* k2 = k3 = 0 */
    for (int lane = 0; lane < LANES; lane++) {
        uint64_t counter = block * LANES + (uint64_t)lane;
        uint32_t x0 = (uint32_t)counter, x1 = (uint32_t)(counter >> 32), x2 = (uint32_t)stream, x3 = (uint32_t)(stream >> 32);
        ADD_KEY(k0, k1, 0, 0, 0)
        EVEN_ROUNDS
        ADD_KEY(k1, 0, 0, k4, 1)
        ODD_ROUNDS
        ADD_KEY(0, 0, k4, k0, 2)
        EVEN_ROUNDS
        ADD_KEY(0, k4, k0, k1, 3)
        ODD_ROUNDS
        ADD_KEY(k4, k0, k1, 0, 4)
        EVEN_ROUNDS
        ADD_KEY(k0, k1, 0, 0, 5)
        words[lane] = x0;
        words[LANES + lane] = x1;
        words[2 * LANES + lane] = x2;
        words[3 * LANES + lane] = x3;
    }
}

/* Uniform on the multiples of 2^-24 in [0, 1). */
INLINE float uniform(uint32_t word) { return (float)(int32_t)(word >> 8) * 0x1p-24f; }

/* --- functions */

/* log x of a positive normal x. */
INLINE float log_of(float x) {
    uint32_t shifted = to_bits(x) - 0x3F3504F3u; /* the bits of sqrt(1/2): the mantissa is taken from there on */
    float e = (float)((int32_t)shifted >> 23);
    float f = from_bits((shifted & 0x7FFFFFu) + 0x3F3504F3u) - 1.0f;
    float z = f * f, y = 7.0376836292e-2f;
    y = y * f - 1.1514610310e-1f;
    y = y * f + 1.1676998740e-1f;
    y = y * f - 1.2420140846e-1f;
    y = y * f + 1.4249322787e-1f;
    y = y * f - 1.6668057665e-1f;
    y = y * f + 2.0000714765e-1f;
    y = y * f - 2.4999993993e-1f;
    y = y * f + 3.3333331174e-1f;
    y = y * f * z + e * -2.12194440e-4f - 0.5f * z;
    return f + y + e * 0.693359375f;
}

/* 2^n for whole n of -126 to 128, as two factors: 2^128 is no float32. */
typedef struct {
    float grown; /* e^r - 1 of the rest r = x - n log 2 */
    float half, rest;
} Power;

INLINE Power power_of(float x) {
    x = clamped(x, -87.3f, 88.72f);
    float n = (x * 1.44269504088896341f + 12582912.0f) - 12582912.0f; /* 1.5 x 2^23: rounds to a whole number */
    float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float y = 1.9875691500e-4f;
    y = y * r + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = y * r + 5.0000001201e-1f;
    int32_t whole = (int32_t)n, half = whole >> 1;
    Power power = {y * r * r + r, from_bits((uint32_t)(half + 127) << 23), from_bits((uint32_t)(whole - half + 127) << 23)};
    return power;
}

/* e^x, held inside the range of normal numbers. */
INLINE float exp_of(float x) {
    Power p = power_of(x);
    return (1.0f + p.grown) * p.half * p.rest;
}

/* e^x - 1 and e^x. */
INLINE float expm1_of(float x, float *e) {
    Power p = power_of(x);
    float scale = p.half * p.rest;
    *e = (1.0f + p.grown) * p.half * p.rest;
    return scale * p.grown + (scale - 1.0f);
}

/* Two independent standard normal numbers from two words: radius sqrt(-2 log u) and an angle, by octants. */
INLINE void normal_pair(uint32_t first, uint32_t second, float *restrict a, float *restrict b) {
    float u = (float)(int32_t)(first >> 1) * 0x1p-31f + 0x1p-32f; /* in [2^-32, 1]: normal numbers up to 6.7 */
    float radius = sqrtf(-2.0f * log_of(u));
    float x = (float)(int32_t)(second & 0x1FFFFFFFu) * (0.785398163397448f * 0x1p-29f); /* [0, pi / 4] */
    float z = x * x;
    float sine = ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * x + x;
    float cosine = ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * z * z - 0.5f * z + 1.0f;
    uint32_t swap = 0u - ((second >> 29) & 1u); /* all ones or none */
    uint32_t differing = (to_bits(sine) ^ to_bits(cosine)) & swap;
    *a = radius * from_bits((to_bits(cosine) ^ differing) | (second & 0x80000000u));
    *b = radius * from_bits((to_bits(sine) ^ differing) | ((second << 1) & 0x80000000u));
}
