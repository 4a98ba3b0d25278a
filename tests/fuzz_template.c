/* fuzz_template.c - chat templates, changed at random: each is refused with a message or gives a text. */
#include "fuzz.h"

static const char variables[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"Be kind.\"}, "
    "{\"role\": \"user\", \"content\": \" caf\xc3\xa9 \"},"
    " {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": "
    "{\"x\": [1, 2.5, true]}}}]}], \"tools\": [{\"name\": \"f\"}], \"bos_token\": \"<s>\", \"n\": 3}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    cr_marks marks;
    cr_template *t = cr_template_new((const char *)data, bytes);
    fuzz_check(t != NULL, "template");
    if (!t) return 0;
    char *text = cr_template_render(t, variables, sizeof variables - 1, &marks);
    fuzz_check(text != NULL, "text");
    for (int64_t i = 0; text && i < marks.n; i++)
        if (marks.at[2 * i] > marks.at[2 * i + 1] || marks.at[2 * i] < 0) abort();
    cr_free(text);
    cr_free(marks.at);
    cr_template_free(t);
    return 0;
}

static size_t fuzz_seed(int i, uint8_t *out, size_t room) {
    static const char *const seeds[] = {
        "{% for m in messages if m.content %}{{ '<|im_start|>' + m['role'] + '\\n' }}"
        "{% generation %}{{ m.content|trim }}"
        "{% endgeneration %}<|im_end|>\n{% else %}-{% endfor %}",
        "{%- set ns = namespace(first=true, k=[]) -%}\n  {% if tools is defined and tools %}"
        "{{ tools|tojson(indent=2) }}\n"
        "  {%- elif n > 2 %}x{% endif %}\n{% set ns.first = not ns.first %}{{ ns.first ~ (n // 2) * -1.5e3 }}",
        "{% macro f(a, b='q', c=[1]) %}{{ a[::-1] }}{{ b.split('.')[-1][1:2] }}{{ varargs }}{{ kwargs }}"
        "{{ caller() if caller }}{% endmacro %}{{ f('x\\u00e9', b=bos_token) }}{% call f(1) %}y{% endcall %}",
        "{# c #}{% raw %}{{ }}{% endraw %}{{ messages|selectattr('role', 'in', ['user'])"
        "|map(attribute='content')|join(', ')"
        "|replace('a', 'b')|upper if messages[0] is mapping else none }}",
        "{% for k, v in messages[-1].tool_calls[0].function.arguments|dictsort recursive %}{{ loop.index }}{{ k }}"
        "{{ v|sort(reverse=true) }}{% if loop.last %}{% break %}{% endif %}{% endfor %}"
        "{% with a = {1: 2} %}{{ a }}{% endwith %}",
        "{{ '%5.2f|%d|%s' % (n, n, messages) }}{{ range(n)|batch(2, 'z')|list }}{{ \"it's\"|indent(2, true)|title|e }}"
        "{{ raise_exception('no') if n is odd and n is divisibleby(5) }}{{ dict(a=1).items()|list }}"};
    if (i >= (int)(sizeof seeds / sizeof *seeds)) return 0;
    const size_t n = strlen(seeds[i]);
    if (n > room) return 0;
    memcpy(out, seeds[i], n);
    return n;
}
