// nn.js - layers with PyTorch's names and initialisation.
export function nn(bridge, cr) {
    const { c } = bridge;
    const generator = () => c.cr_default_generator();

    class Module {
        training = true;

        /** [name, tensor] of this module and those in it; a tensor that stands twice comes once. */
        *named_parameters(prefix = "", seen = new Set()) {
            for (const [key, value] of Object.entries(this)) {
                const name = prefix ? `${prefix}.${key}` : key;
                if (value instanceof cr.Tensor && value.requires_grad && !seen.has(value)) {
                    seen.add(value);
                    yield [name, value];
                }
                for (const [child, module] of modulesOf(value, name)) yield* module.named_parameters(child, seen);
            }
        }

        parameters() {
            return Array.from(this.named_parameters(), ([, value]) => value);
        }

        train(on = true) {
            this.training = on;
            for (const value of Object.values(this)) for (const [, module] of modulesOf(value, "")) module.train(on);
            return this;
        }

        eval() {
            return this.train(false);
        }

        zero_grad() {
            for (const p of this.parameters()) p.grad = null;
        }

        /** name -> {dtype, shape, data}: plain values, which survive postMessage. */
        state_dict() {
            return Object.fromEntries(
                Array.from(
                    this.named_parameters(), ([name, p]) => [name, { dtype: p.dtype, shape: p.shape, data: p.data() }],
                ),
            );
        }

        load_state_dict(state) {
            const mine = new Map(this.named_parameters());
            const missing = [...mine.keys()].filter((name) => !(name in state));
            const extra = Object.keys(state).filter((name) => !mine.has(name));
            if (missing.length || extra.length)
                throw new Error(
                    `[load_state_dict] missing: ${missing.join(", ") || "none"}; ` +
                        `not wanted: ${extra.join(", ") || "none"}`,
                );
            for (const [name, p] of mine) {
                const { shape, data, dtype } = state[name];
                if (String(shape) !== String(p.shape))
                    throw new Error(`[load_state_dict] ${name} has the shape (${p.shape}), not (${shape})`);
                cr.no_grad(() => cr.scope(() => void p.copy_(cr.tensor(data, { dtype }).reshape(shape))));
            }
        }

        free() {
            for (const p of this.parameters()) p.free();
        }

        forward() {
            throw new Error(`[${this.constructor.name}] has no forward()`);
        }
    }

    function* modulesOf(value, name) {
        if (value instanceof Module) yield [name, value];
        else if (Array.isArray(value))
            for (const [i, part] of value.entries()) yield* modulesOf(part, name ? `${name}.${i}` : `${i}`);
    }

    const parameter = (...shape) => cr.empty(shape).requires_grad_();

    function uniform(p, bound) {
        bridge.done(c.cr_init_uniform(p.handle, -bound, bound, generator()));
        return p;
    }

    class Linear extends Module {
        constructor(in_features, out_features, { bias = true } = {}) {
            super();
            this.weight = parameter(out_features, in_features);
            bridge.done(c.cr_init_kaiming_uniform(this.weight.handle, Math.sqrt(5), generator()));
            this.bias = bias ? uniform(parameter(out_features), 1 / Math.sqrt(in_features)) : null;
        }

        forward(x) {
            return cr.wrap(c.cr_linear(cr.raw(x), this.weight.handle, this.bias?.handle ?? bridge.none));
        }
    }

    class Embedding extends Module {
        constructor(num_embeddings, embedding_dim) {
            super();
            this.weight = parameter(num_embeddings, embedding_dim);
            bridge.done(c.cr_init_normal(this.weight.handle, 0, 1, generator()));
        }

        forward(index) {
            return cr.wrap(c.cr_embedding(this.weight.handle, cr.raw(index)));
        }
    }

    class LayerNorm extends Module {
        constructor(size, { eps = 1e-5, bias = true } = {}) {
            super();
            this.eps = eps;
            this.weight = cr.ones([size]).requires_grad_();
            this.bias = bias ? cr.zeros([size]).requires_grad_() : null;
        }

        forward(x) {
            return cr.wrap(c.cr_layer_norm(cr.raw(x), this.weight.handle, this.bias?.handle ?? bridge.none, this.eps));
        }
    }

    class RMSNorm extends Module {
        constructor(size, { eps = 1e-6 } = {}) {
            super();
            this.eps = eps;
            this.weight = cr.ones([size]).requires_grad_();
        }

        forward(x) {
            return cr.wrap(c.cr_rms_norm(cr.raw(x), this.weight.handle, this.eps));
        }
    }

    class Dropout extends Module {
        constructor(p = 0.5) {
            super();
            this.p = p;
        }

        forward(x) {
            return cr.wrap(c.cr_dropout(cr.raw(x), this.p, this.training, generator()));
        }
    }

    class Sequential extends Module {
        constructor(...layers) {
            super();
            layers.forEach((layer, i) => (this[i] = layer));
        }

        forward(x) {
            for (const layer of Object.values(this)) if (layer instanceof Module) x = layer.forward(x);
            return x;
        }
    }

    /** A layer of an elementwise function: new nn.ReLU(). */
    const layerOf = (name) =>
        class extends Module {
            constructor(...args) {
                super();
                this.args = args;
            }

            forward(x) {
                return cr[name](x, ...this.args);
            }
        };

    const REDUCTIONS = { mean: 0, sum: 1, none: 2 };
    const functional = {
        cross_entropy(input, target, { ignore_index = -100, label_smoothing = 0, reduction = "mean" } = {}) {
            if (!(reduction in REDUCTIONS))
                throw new Error(`[cross_entropy] reduction is mean, sum or none, not '${reduction}'`);
            return cr.wrap(
                c.web_cross_entropy(
                    cr.raw(input), cr.raw(target), ignore_index, label_smoothing, REDUCTIONS[reduction],
                ),
            );
        },
        mse_loss: (input, target) => input.sub(target).square().mean(),
        binary_cross_entropy_with_logits: (input, target) =>
            cr.softplus(input.neg()).mul(target).add(cr.softplus(input).mul(target.neg().add(1))).mean(),
        linear: (x, weight, bias = null) =>
            cr.wrap(c.cr_linear(cr.raw(x), cr.raw(weight), bias?.handle ?? bridge.none)),
        embedding: (index, weight) => cr.wrap(c.cr_embedding(cr.raw(weight), cr.raw(index))),
        dropout: (x, p = 0.5, training = true) => cr.wrap(c.cr_dropout(cr.raw(x), p, training, generator())),
        scaled_dot_product_attention: (q, k, v, { attn_mask = null, is_causal = false, scale = 0 } = {}) =>
            cr.wrap(
                c.web_attention(cr.raw(q), cr.raw(k), cr.raw(v), attn_mask?.handle ?? bridge.none, is_causal, scale),
            ),
    };

    return {
        Module,
        Linear,
        Embedding,
        LayerNorm,
        RMSNorm,
        Dropout,
        Sequential,
        ReLU: layerOf("relu"),
        GELU: layerOf("gelu"),
        SiLU: layerOf("silu"),
        Sigmoid: layerOf("sigmoid"),
        Tanh: layerOf("tanh"),
        LeakyReLU: layerOf("leaky_relu"),
        functional,
    };
}
