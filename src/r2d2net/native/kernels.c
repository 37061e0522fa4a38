/* Steps of mean-field inference, sweeps of R2D2's scales and relevances, in one pass over memory; float32, one thread a call.

   Each kernel is compiled for several levels of x86's vector units and takes the best that the processor has. Nothing is
   contracted to fused multiply-adds (see build.py), so all levels, and other processors, compute the same bits.
   Random numbers belong to blocks of 64 weights. A caller may cut the weights into parts that start at whole blocks,
   `first` being the number of a part's first block, and have several threads compute them. */

#include "numbers.h"

#define TINY 1.17549435e-38f          /* the smallest normal number */
#define HUGE_SCALE 8.50705917e37f     /* its reciprocal */
#define LARGEST_SQUARE 7.92281625e28f /* the largest number ^ (3/4) */
#define BETA1 0.9f
#define BETA2 0.999f
#define EXPORT __attribute__((visibility("default")))

#if defined(__x86_64__)
static int level(void) {
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) return 2;
    return __builtin_cpu_supports("avx2") ? 1 : 0;
}
#if defined(__clang__)
#define WIDE ""
#else
#define WIDE ",prefer-vector-width=512"
#endif
#define KERNEL(name, params, args)                                                                                     \
    __attribute__((target("avx512f,avx512dq,avx512vl" WIDE))) static void name##_2 params { name args; }               \
    __attribute__((target("avx2"))) static void name##_1 params { name args; }                                         \
    static void name##_0 params { name args; }                                                                         \
    EXPORT void r2d2_##name params {                                                                                   \
        int best = chosen < 0 ? level() : chosen;                                                                      \
        if (best == 2) name##_2 args;                                                                                  \
        else if (best == 1) name##_1 args;                                                                             \
        else name##_0 args;                                                                                            \
    }
#else
static int level(void) { return 0; }
#define KERNEL(name, params, args)                                                                                     \
    EXPORT void r2d2_##name params { name args; }
#endif

static int chosen = -1; /* a level that tests ask for, or -1 for the best */

/* Use a level of at most `most`; return the one that is used. */
EXPORT int r2d2_level(int most) {
    int best = level();
    chosen = most < 0 ? -1 : most < best ? most : best;
    return chosen < 0 ? best : chosen;
}

EXPORT uint32_t r2d2_digest(void) { return DIGEST; } /* of the sources: see build.py */

EXPORT void r2d2_words(uint64_t key, uint64_t block, uint64_t stream, uint32_t *words) { threefry(key, block, stream, words); }

/* --- draws: w = mu + s e, 1 / s^2 = c + exp(rho) */

INLINE void normals(uint64_t key, uint64_t block, float *restrict e) {
    uint32_t words[BLOCK];
    threefry(key, block, 0, words);
    for (int i = 0; i < BLOCK / 2; i++) normal_pair(words[i], words[BLOCK / 2 + i], &e[i], &e[BLOCK / 2 + i]);
}

INLINE void draw_block(const float *restrict e, const float *restrict mean, const float *restrict rho,
                       const float *restrict precision, float *restrict out) {
    for (int i = 0; i < BLOCK; i++) out[i] = mean[i] + e[i] / sqrtf(exp_of(rho[i]) + precision[i]);
}

INLINE void draw(int64_t n, uint64_t key, uint64_t first, const float *mean, const float *rho, const float *precision,
                 float *out) {
    float e[BLOCK], rest[3][BLOCK] = {{0}}, drawn[BLOCK];
    int64_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK) {
        normals(key, first++, e);
        draw_block(e, mean + i, rho + i, precision + i, out + i);
    }
    if (i == n) return;
    size_t bytes = (size_t)(n - i) * sizeof(float);
    memcpy(rest[0], mean + i, bytes);
    memcpy(rest[1], rho + i, bytes);
    memcpy(rest[2], precision + i, bytes);
    normals(key, first, e);
    draw_block(e, rest[0], rest[1], rest[2], drawn);
    memcpy(out + i, drawn, bytes);
}

KERNEL(draw,
       (int64_t n, uint64_t key, uint64_t first, const float *mean, const float *rho, const float *precision, float *out),
       (n, key, first, mean, rho, precision, out))

/* E w^2 = mu^2 + s^2 */
INLINE void second_moment(int64_t n, const float *restrict mean, const float *restrict rho,
                          const float *restrict precision, float *restrict out) {
    for (int64_t i = 0; i < n; i++) out[i] = mean[i] * mean[i] + 1.0f / (exp_of(rho[i]) + precision[i]);
}

KERNEL(second_moment, (int64_t n, const float *mean, const float *rho, const float *precision, float *out),
       (n, mean, rho, precision, out))

/* --- updates: Adam's steps along the gradients in mu and log s, and the proximal step of mu */

typedef struct {
    float rate, rho_rate;          /* step size over 1 - beta1^t */
    float correction;              /* 1 / sqrt(1 - beta2^t) */
    float epsilon, least_square;   /* Adam's, and (epsilon sqrt(1 - beta2^t))^2 */
    float size;                    /* of the proximal step */
    float beta;                    /* weight of the KL */
} Step;

INLINE void update(int64_t n, const Step *step, int is_draw, const float *restrict precision, const float *restrict g_mean,
                   const float *restrict g_log, float *restrict mean, float *restrict rho, float *restrict mean_first,
                   float *restrict mean_second, float *restrict rho_first, float *restrict rho_second) {
    const Step s = *step;
    for (int64_t i = 0; i < n; i++) {
        float g = g_mean[i], c = precision[i], old = mean[i];
        float in_log = is_draw ? (g_log[i] - old) * g : g_log[i];
        float rise = in_log + s.beta * (c / (exp_of(rho[i]) + c)) - s.beta;
        float m = rho_first[i] + (1.0f - BETA1) * (-rise - rho_first[i]);
        float v = BETA2 * rho_second[i] + (1.0f - BETA2) * (rise * rise);
        rho_first[i] = m;
        rho_second[i] = v;
        rho[i] -= s.rho_rate * m / (sqrtf(v) * s.correction + s.epsilon);
        m = mean_first[i] + (1.0f - BETA1) * (g - mean_first[i]);
        v = BETA2 * mean_second[i] + (1.0f - BETA2) * (g * g);
        mean_first[i] = m;
        mean_second[i] = v;
        /* (mu - rate m / denominator) / (1 + size c / root), with one division */
        float denominator = sqrtf(v) * s.correction + s.epsilon, root = sqrtf(v + s.least_square);
        mean[i] = (old * denominator - s.rate * m) * root / (denominator * (root + s.size * c));
    }
}

KERNEL(update,
       (int64_t n, const Step *step, int is_draw, const float *precision, const float *g_mean, const float *g_log,
        float *mean, float *rho, float *mean_first, float *mean_second, float *rho_first, float *rho_second),
       (n, step, is_draw, precision, g_mean, g_log, mean, rho, mean_first, mean_second, rho_first, rho_second))

/* --- R2D2's scales: T ~ giG(2 w^2 / psi, 2 rate, lam), psi ~ giG(2 w^2 / T, 1, 1/2), w in units of sigma0 */

typedef struct {
    float order;                                /* |lam| */
    float right, right_expm1, left, left_expm1; /* limits of the hat's touching points, and their e^t - 1 */
    float right_share, left_share;              /* 1 - e^-t */
    float per_unit;                             /* 1 / sigma0 */
    float half_variance;                        /* sigma0^2 / 2 */
    int reciprocal;                             /* lam < 0 */
} Conditional;

/* A block's proposals of giG(chi, rho, lam) by the hat of `distributions/gig_sampler.py`; T stays where one is rejected.
   Divisions are shared: g / (1 + g) rises with g, so that its least with a constant is that of the least of both g; and
   1 / zeta and 1 / xi come from 1 / (zeta xi). The work is done in several short loops: of one long one a processor could
   not begin the next round before the last is done. */
INLINE void propose(const Conditional q, const float *restrict chi, const float *restrict rho, const uint32_t *restrict u,
                    const uint32_t *restrict v, float *restrict T) {
    float la = q.order, h[BLOCK], half[BLOCK], g[BLOCK], reach[BLOCK], share[BLOCK], z[BLOCK], tail[BLOCK];
    for (int i = 0; i < BLOCK; i++) {
        float product = chi[i] * rho[i];
        h[i] = sqrtf(product + la * la) + la;
        half[i] = product / h[i] * 0.5f;
        float root = 1.0f / sqrtf(half[i]);
        g[i] = least(root + 0.5f * root * root, 1e30f);
    }
    for (int i = 0; i < BLOCK; i++) {
        float grown = 1.0f + g[i], per_grown = 1.0f / grown;
        reach[i] = log_of(grown) + (g[i] - (grown - 1.0f)) * per_grown;
        share[i] = g[i] * per_grown;
    }
    for (int i = 0; i < BLOCK; i++) {
        float t = least(reach[i], q.right), gt = least(g[i], q.right_expm1), it = least(share[i], q.right_share);
        float s = least(reach[i], q.left), gs = least(g[i], q.left_expm1), js = least(share[i], q.left_share);
        float zeta = (gt + it) * half[i] + gt * la, xi = (gs + js) * half[i] + js * la;
        float both = 1.0f / (zeta * xi), r = both * xi, p = both * zeta;
        t -= ((gt - t) * la + it * gt * half[i]) * r;
        s -= ((s - js) * la + gs * js * half[i]) * p;
        float total = p + r + t + s, position = total * uniform(u[i]), from_left = position - p;
        tail[i] = clamped(least(position * xi, (total - position) * zeta), 1.4901161e-8f, 1.0f);
        z[i] = clamped(from_left - s, -s, t);
        g[i] = from_left < 0.0f ? p : -r; /* the slope of z in log tail */
    }
    for (int i = 0; i < BLOCK; i++) z[i] += g[i] * log_of(tail[i]);
    for (int i = 0; i < BLOCK; i++) {
        float e, w = expm1_of(z[i], &e);
        g[i] = w * w / e * half[i] + (w - z[i]) * la;
        float he = h[i] * e;
        h[i] = (q.reciprocal ? chi[i] : he) / (q.reciprocal ? he : rho[i]);
    }
    for (int i = 0; i < BLOCK; i++) T[i] = exp_of(-g[i]) >= tail[i] * uniform(v[i]) ? h[i] : T[i];
}

/* giG(chi, 1, 1/2) from a normal number and a uniform one, as `distributions/inverse_gaussian.py` has it. */
INLINE float reciprocal_root(float chi, float normal, float u) {
    float t = sqrtf(chi), n = 0.5f * normal * normal, b = t + n + sqrtf(n * (n + 2.0f * t));
    return b < (b + t) * u ? t / b * t : b;
}

INLINE void gibbs_block(const Conditional q, const uint32_t *restrict words, const float *restrict e, const float *restrict w,
                        const float *restrict rho, const float *restrict most, float *restrict T, float *restrict psi,
                        float *restrict precision) {
    float square[BLOCK], chi[BLOCK];
    for (int i = 0; i < BLOCK; i++) {
        float x = w[i] * q.per_unit;
        square[i] = 2.0f * clamped(x * x, TINY, LARGEST_SQUARE);
        chi[i] = least(clamped(square[i] / psi[i], TINY, HUGE_SCALE), most[i]);
    }
    propose(q, chi, rho, words, words + BLOCK, T);
    for (int i = 0; i < BLOCK; i++) {
        float t = clamped(T[i], TINY, HUGE_SCALE), in_psi = clamped(square[i] / t, TINY, HUGE_SCALE);
        float y = clamped(reciprocal_root(in_psi, e[i], uniform(words[2 * BLOCK + i])), TINY, HUGE_SCALE);
        T[i] = t;
        psi[i] = y;
        precision[i] = 1.0f / clamped(q.half_variance * y * t, TINY, HUGE_SCALE);
    }
}

INLINE void gibbs(int64_t n, uint64_t key, uint64_t first, const Conditional *conditional, const float *w,
                  const float *rate, int64_t rates, float *T, float *psi, float *precision) {
    const Conditional q = *conditional;
    uint32_t words[3 * BLOCK];
    float e[BLOCK], rest[4][BLOCK], rho[BLOCK], most[BLOCK]; /* chi rho stays below 1e30 */
    for (int k = 0; k < BLOCK; k++) rho[k] = clamped(2.0f * rate[0], TINY, HUGE_SCALE), most[k] = 1e30f / rho[k];
    int64_t i = 0;
    for (; i < n; i += BLOCK, first++) {
        normals(key, first, e);
        for (uint64_t k = 0; k < 3; k++) threefry(key, first, k + 1, words + k * BLOCK);
        int whole = i + BLOCK <= n;
        int64_t count = whole ? BLOCK : n - i;
        size_t bytes = (size_t)count * sizeof(float);
        for (int64_t k = 0; rates > 1 && k < count; k++) {
            rho[k] = clamped(2.0f * rate[i + k], TINY, HUGE_SCALE);
            most[k] = 1e30f / rho[k];
        }
        if (whole) {
            gibbs_block(q, words, e, w + i, rho, most, T + i, psi + i, precision + i);
            continue;
        }
        for (int k = 0; k < BLOCK; k++) rest[0][k] = rest[1][k] = rest[2][k] = 1.0f;
        memcpy(rest[0], w + i, bytes);
        memcpy(rest[1], T + i, bytes);
        memcpy(rest[2], psi + i, bytes);
        gibbs_block(q, words, e, rest[0], rho, most, rest[1], rest[2], rest[3]);
        memcpy(T + i, rest[1], bytes);
        memcpy(psi + i, rest[2], bytes);
        memcpy(precision + i, rest[3], bytes);
    }
}

KERNEL(gibbs,
       (int64_t n, uint64_t key, uint64_t first, const Conditional *conditional, const float *w, const float *rate,
        int64_t rates, float *T, float *psi, float *precision),
       (n, key, first, conditional, w, rate, rates, T, psi, precision))

/* Coordinate ascent: psi and T become 1 / E[1/psi] and 1 / E[1/T]; `sums` gets E T, summed in 16 lanes. `table` has the
   four rows of `distributions/gig_moments.narrow_table`: cubics of K_{|lam|-1}(x) / K_{|lam|}(x), cells by leading bits. */
INLINE void cavi_block(int n, const Conditional q, const float *restrict table, int64_t cells, float root_rho,
                       const float *restrict second, float *restrict T, float *restrict psi, float *restrict precision,
                       double *restrict sums) {
    const float *c0 = table, *c1 = c0 + cells, *c2 = c1 + cells, *c3 = c2 + cells;
    float root_chi[BLOCK], down[BLOCK], mean[BLOCK];
    for (int i = 0; i < n; i++) {
        float square = 2.0f * clamped(second[i] * q.per_unit * q.per_unit, TINY, LARGEST_SQUARE);
        psi[i] = clamped(sqrtf(clamped(square / T[i], TINY, HUGE_SCALE)), TINY, HUGE_SCALE);
        root_chi[i] = sqrtf(clamped(square / psi[i], TINY, HUGE_SCALE));
    }
    for (int i = 0; i < n; i++) {
        uint32_t bits = to_bits(root_chi[i] * root_rho);
        int32_t cell = (int32_t)(bits >> 19);
        float f = (float)(int32_t)(bits & 0x7FFFFu) * 0x1p-19f;
        down[i] = ((c3[cell] * f + c2[cell]) * f + c1[cell]) * f + c0[cell];
    }
    for (int i = 0; i < n; i++) {
        float up = down[i] + 2.0f * q.order / (root_chi[i] * root_rho), scale = root_chi[i] / root_rho;
        float t = clamped(scale / (q.reciprocal ? up : down[i]), TINY, HUGE_SCALE);
        T[i] = t;
        precision[i] = 1.0f / clamped(q.half_variance * psi[i] * t, TINY, HUGE_SCALE);
        mean[i] = clamped(scale * (q.reciprocal ? down[i] : up), TINY, HUGE_SCALE);
    }
    for (int i = 0; i < n; i++) sums[i % LANES] += (double)mean[i];
}

INLINE void cavi(int64_t n, const Conditional *conditional, const float *table, int64_t cells, float rate,
                 const float *second, float *T, float *psi, float *precision, double *sums) {
    float root_rho = sqrtf(clamped(2.0f * rate, TINY, HUGE_SCALE));
    int64_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK)
        cavi_block(BLOCK, *conditional, table, cells, root_rho, second + i, T + i, psi + i, precision + i, sums);
    if (i < n)
        cavi_block((int)(n - i), *conditional, table, cells, root_rho, second + i, T + i, psi + i, precision + i, sums);
}

KERNEL(cavi,
       (int64_t n, const Conditional *conditional, const float *table, int64_t cells, float rate, const float *second,
        float *T, float *psi, float *precision, double *sums),
       (n, conditional, table, cells, rate, second, T, psi, precision, sums))

/* --- relevance: how much shuffling an input changes the output of a network with one hidden layer of ReLU units

   out_j = sum over shuffles and rows of (V relu(z + W_j d) + A_j d - V relu(z))^2 for inputs j. V is a part of what is
   given: v relu(a) = max(v a, 0) for v >= 0, else min(v a, 0). `z` is v z in blocks of rows, (blocks, units, BLOCK), and
   `unmoved` is V relu(z), (blocks, BLOCK), both filled up with zeros; `weight` is v W', (inputs, units), `change` is d,
   (inputs, shuffles, rows), and `straight`, A, may be NULL. The first `rising` units are those with v >= 0. */
INLINE void squared_change(const float *restrict z, const float *restrict weight, float beside, int64_t units,
                           int64_t rising, const float *restrict d, const float *restrict unmoved, float *restrict sums) {
    float moved[BLOCK];
    for (int k = 0; k < BLOCK; k++) moved[k] = beside * d[k];
    for (int64_t u = 0; u < rising; u++) {
        const float w = weight[u], *restrict own = z + u * BLOCK;
        for (int k = 0; k < BLOCK; k++) {
            float a = own[k] + w * d[k];
            moved[k] += a < 0.0f ? 0.0f : a; /* NaN stays */
        }
    }
    for (int64_t u = rising; u < units; u++) {
        const float w = weight[u], *restrict own = z + u * BLOCK;
        for (int k = 0; k < BLOCK; k++) {
            float a = own[k] + w * d[k];
            moved[k] += a > 0.0f ? 0.0f : a;
        }
    }
    for (int k = 0; k < BLOCK; k++) {
        float e = moved[k] - unmoved[k];
        sums[k] += e * e;
    }
}

INLINE void relu_changes(int64_t inputs, int64_t units, int64_t rising, int64_t rows, int64_t shuffles, const float *z,
                         const float *unmoved, const float *weight, const float *straight, const float *change,
                         float *out) {
    for (int64_t j = 0; j < inputs; j++) {
        double totals[BLOCK] = {0}, total = 0.0;
        for (int64_t i = 0; i < rows; i += BLOCK) {
            int64_t n = rows - i < BLOCK ? rows - i : BLOCK;
            float sums[BLOCK] = {0};
            for (int64_t s = 0; s < shuffles; s++) {
                float d[BLOCK] = {0};
                memcpy(d, change + (j * shuffles + s) * rows + i, (size_t)n * sizeof(float));
                squared_change(z + i * units, weight + j * units, straight ? straight[j] : 0.0f, units, rising, d,
                               unmoved + i, sums);
            }
            for (int k = 0; k < BLOCK; k++) totals[k] += (double)sums[k];
        }
        for (int k = 0; k < BLOCK; k++) total += totals[k];
        out[j] = (float)total;
    }
}

KERNEL(relu_changes,
       (int64_t inputs, int64_t units, int64_t rising, int64_t rows, int64_t shuffles, const float *z,
        const float *unmoved, const float *weight, const float *straight, const float *change, float *out),
       (inputs, units, rising, rows, shuffles, z, unmoved, weight, straight, change, out))
