// optim.js - optimizers with PyTorch's names and defaults.
import { collector } from "./bridge.js";

export function optim(bridge, cr) {
    const { c } = bridge;
    const registry = collector(({ optimizer, params }) => {
        c.cr_optim_free(optimizer);
        c.cr_params_free(params);
    });

    class Optimizer {
        constructor(kind, params, options, allowed) {
            for (const key of Object.keys(options))
                if (!allowed.includes(key))
                    throw new TypeError(`[${kind}] has no option '${key}': ${allowed.join(", ")}`);
            const { lr = NaN, betas = [NaN, NaN], eps = NaN, momentum = NaN, weight_decay = NaN, nesterov = false } =
                options;
            const set = bridge.some(c.cr_params_new());
            bridge.frame(() => {
                [...params].forEach((p, i) => bridge.done(c.cr_params_add(set, bridge.text(`${i}`), cr.raw(p))));
                const numbers = bridge.put(Float64Array, [lr, betas[0], betas[1], eps, momentum, weight_decay]);
                this.handle = bridge.some(c.web_optim_new(bridge.text(kind), set, numbers, nesterov));
            });
            this.params = set;
            registry.register(this, { optimizer: this.handle, params: set }, this);
        }

        step() {
            bridge.done(c.cr_optim_step(this.handle));
        }

        /** step() with gradients whose joint norm is at most max_norm; returns the norm before. */
        step_clipped(max_norm) {
            const stepped = bridge.call("cr_optim_step_clipped", this.handle, max_norm, 0);
            return bridge.then(stepped, (status) => (bridge.done(status), c.cr_optim_norm(this.handle)));
        }

        zero_grad() {
            c.cr_params_zero_grad(this.params);
        }

        get lr() {
            return c.cr_optim_lr(this.handle);
        }

        set lr(value) {
            bridge.done(c.cr_optim_set_lr(this.handle, value));
        }

        free() {
            if (!this.handle) return;
            registry.unregister(this);
            c.cr_optim_free(this.handle);
            c.cr_params_free(this.params);
            this.handle = 0;
        }
    }

    const named = (kind, allowed) =>
        class extends Optimizer {
            constructor(params, options = {}) {
                super(kind, params, options, ["lr", "weight_decay", ...allowed]);
            }
        };
    const adam = ["betas", "eps"];

    return {
        Optimizer,
        SGD: named("sgd", ["momentum", "nesterov"]),
        Adam: named("adam", adam),
        AdamW: named("adamw", adam),
        Adamax: named("adamax", adam),
        Lion: named("lion", ["betas"]),
        Muon: named("muon", ["momentum", "betas", "eps"]),
    };
}
