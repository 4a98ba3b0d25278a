/* nodes.c - read access to the graph, to walk and to draw it: cr_node_* of chainrule.h. */
#include "graph.h"

cr_node *cr_node_of(const cr_tensor *t) {
    if (cr_missing("node_of", "the tensor", t)) return NULL;
    return cr_in_graph(t) ? cr_node_retain(t->node) : NULL;
}

const char *cr_node_op(const cr_node *n) {
    const cr_call c = {.op = n->op, .params = n->params};
    return n->name ? n->name : n->op ? cr_call_name(&c) : "";
}

/* A node with another reference is that of a tensor which the call was given. */
void cr_node_rename(const cr_tensor *t, const char *op) {
    if (cr_missing("node_rename", "the tensor", t) || !op) return;
    if (cr_in_graph(t) && t->node && t->node->op && atomic_load(&t->node->head.refs) == 1) t->node->name = op;
}

cr_node_info cr_node_look(const cr_node *n) {
    cr_node_info info = {.op = ""};
    if (!n) return cr_fail_null("node_look", "the node"), info;
    info.op = cr_node_op(n);
    info.function = cr_is_function(n);
    cr_function_behind(n, &info.inputs);
    info.dtype = n->out.dtype;
    info.ndim = n->out.ndim;
    info.shape = cr_saved_shape(&n->out);
    return info;
}

cr_node *cr_node_input(const cr_node *n, int i) {
    if (!n) return cr_fail_null("node_input", "the node"), NULL;
    int inputs;
    const cr_node *from = cr_function_behind(n, &inputs);
    if (i < 0 || i >= inputs)
        return cr_fail(CR_BAD_INDEX, "node_input", "there is no input %d: the op has %d", i, inputs), NULL;
    return cr_node_retain(from->edges[i]);
}
