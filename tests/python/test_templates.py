"""The interpreter of chat templates: a table of values, and random templates beside ``jinja2`` set up as in
``transformers``."""

from __future__ import annotations

import importlib.util
import json
import os
import threading
from collections import Counter
from typing import Any

import chainrule as cr
import pytest
from chainrule import _core
from template_programs import VALUES, Writer

needs_transformers = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="transformers is not installed (make oracle)"
)


def rendered(template: str, variables: Any = VALUES) -> str:
    text: bytes = _core._template_render(_core._template(template.encode()), json.dumps(variables).encode())[0]
    return text.decode()


# what white space stays, what names mean, what Python writes
VALUE = {
    "a\n  {% if t %}\n  b\n  {% endif %}\nc\n": "a\n  b\nc",
    "a\n  {%+ if t %} b {%- endif +%}\n c": "a\n   b\n c",
    "{{ 'x' -}}  \n y {#- z #}\nw": "xyw",
    "{% raw %}{{ x }}{%- endraw %}\n|": "{{ x }}|",
    "\r\na\r{{ '\r\n' }}b": "\na\n\nb",
    "{{ [1, 2.5, 'a', none, true, (1,), {'k': \"it's\"}] }}": "[1, 2.5, 'a', None, True, (1,), {'k': \"it's\"}]",
    "{{ 1e16 }} {{ 1e15 }} {{ 1.5e-7 }} {{ 0.0001 }} {{ 1 / 3 }}": (
        "1e+16 1000000000000000.0 1.5e-07 0.0001 0.3333333333333333"
    ),
    "{{ -7 // 2 }} {{ -7 % 3 }} {{ 7.5 // 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }}": "-4 2 3.0 1024 0.5",
    "{{ d.items }} {{ d['items'] }} {{ d.a }} {{ d.zz is defined }}": None,
    "{{ 'été'[1:] }} {{ 'été'|length }} {{ 'été'[::-1] }} {{ 'abc'[-1] }}": "té 3 été c",
    "{{ {'a': [1, 'é\"'], 'b': none}|tojson }}": '{"a": [1, "é\\""], "b": null}',
    "{{ {'b': 1, 'a': []}|tojson(indent=2, sort_keys=true) }}": '{\n  "a": [],\n  "b": 1\n}',
    "{% for x in l|sort %}{{ loop.index }}{{ x }}{{ ',' if not loop.last }}{% endfor %}": "11,22,33",
    "{% for a, b in d|dictsort if a != 'b' %}{{ a }}={{ b }};{% else %}-{% endfor %}": "a=1;items=5;",
    "{% for x in [1, [2, [3]]] recursive %}{{ loop(x) if x is iterable else x }}"
    "{{ loop.depth }}{% endfor %}": "11223321",
    "{% macro f(a, b=a) %}{{ a }}{{ b }}{{ caller() if caller }}{% endmacro %}{{ f(1) }}{{ f(1, b=2) }}"
    "{% call f(3) %}!{% endcall %}": "111233!",
    "{% set ns = namespace(k=0) %}{% for x in l %}{% set ns.k = ns.k + x %}{% set i = 9 %}{% endfor %}"
    "{{ ns.k }}{{ i }}": "63",
    "{% set x %} a {{ i }}{% endset %}{{ x|trim }}{% filter upper %}b{% endfilter %}": "a 3B",
    "{% with a = 1, b = i %}{{ a + b }}{% endwith %}{{ a is defined }}": "4False",
    "{{ m|selectattr('role', 'in', ['user', 'tool'])|map(attribute='role')|join('+') }}": "user+tool",
    "{{ '%5.2f|%-4d|%s|%r' % (f, i, s, e) }}": " 2.50|3   |Hello World|''",
    "{{ n|selectattr('x')|list }}{{ undef|length }}{{ undef }}{{ undef|default('d') }}": "[]0d",
    "{{ s is string and not e and i in l and 'ell' in s and 1 < 2 < 3 }}": "True",
    "{{ 'x' if false }}{{ e or s and i }}": "3",
    "{% for x in range(9) %}{% if x == 1 %}{% continue %}{% elif x == 4 %}{% break %}{% endif %}"
    "{{ x }}{% endfor %}": "023",
    # a name that a frame sets before it reads it is undefined in frames inside until then
    "{% for x in [1] %}{% for y in [1] %}{{ i }}{% endfor %}{% set i = 7 %}{% for y in [1] %}{{ i }}{% endfor %}"
    "{% endfor %}": "7",
    "{% for x in [1, 2] %}{% for y in [1] %}{{ i is defined }}{% endfor %}{% set i = 7 %}{{ i }}{% endfor %}{{ i }}": (
        "True7True73"
    ),
    "{% macro f() %}{% for y in [1] %}{{ i is defined }}{% endfor %}{% set i = 7 %}{% endmacro %}{{ f() }}": "False",
    "{% for x in [1] %}{% if t %}{% set i = 7 %}{% endif %}{{ i }}{% endfor %}{{ i }}": "73",
    "{% for x in [1, 2] %}{% if x == 2 %}{% set i = 7 %}{% endif %}{{ i }}{% endfor %}{{ i }}": "373",
    # `if` has no frame: what it sets stays
    "{% if t %}{% set z = 1 %}{% endif %}{{ z }}{% if not t %}{% set z = 2 %}{% else %}{% set z = z + 4 %}{% endif %}"
    "{{ z }}": "15",
    "{{ l[::-1] }}{{ l[1::-1] }}{{ l[:0:-1] }}{{ l[-1:-3:-1] }}{{ l[9:-9:-2] }}{{ l[-9::-1] }}{{ 'abcd'[2:0:-1] }}"
    "{{ 'abcd'[9:0:-2] }}": "[2, 1, 3][1, 3][2, 1][2, 1][2, 3][]cbdb",
    "{{ e|default('d', true) }}{{ 0|default('d', true) }}{{ 0|default('d') }}{{ n|default('d') }}"
    "{{ n|default('d', boolean=true) }}{{ s|default('d', true) }}{{ [] | d([1], true) }}": "dd0NonedHello World[1]",
    "{{ 1 < 3 < 2 }}{{ 1 < 3 > 2 }}{{ 1 < 3 < 2 < 9 }}{{ 2 < 1 < undef.x }}{{ 1 in [1] == true }}": (
        "FalseTrueFalseFalseFalse"
    ),
}


@pytest.mark.parametrize("template", VALUE)
def test_values(template: str) -> None:
    wanted = VALUE[template]
    if wanted is None:  # a method hides an entry of the same name, for attributes only
        with pytest.raises(ValueError, match="a method has no text"):
            rendered(template)
        wanted, template = "5 1 False", template[template.index("{{ d['") :]
    assert rendered(template) == wanted


REFUSED = {
    "{% for x in l %}": r"line 1: {% endfor %} is missing",
    "\n\n{{ }}": "line 3: an expression is missing",
    "{{ 'a": "a text has no end",
    "{{ a": "a tag has no end",
    "{# a": "a comment has no end",
    "{% include 'x' %}": "the tag 'include' is not known here",
    "{{ s|groupby('x') }}": "the filter 'groupby' is not supported",
    "{{ s|nope }}": "the filter 'nope' is not supported",
    "{{ undef.x }}": "'undef' is undefined",
    "{{ d.zz.y }}": "'dict object' has no attribute 'zz'",
    "{{ undef + 1 }}": "'undef' is undefined",
    "{{ raise_exception('no' ~ i) }}": "the template refuses these messages: no3",
    "{{ l.append(1) }}": "may not change its values",
    "{{ s.__class__ }}": "is unsafe",
    "{{ range(1000000) }}": "Range too big",
    "{{ 2 ** 64 }}": "an integer is too large",
    "{{ 'x' * 2000000000 }}": "needs more than 1024 MB",
    "{{ " + "(" * 500 + "1" + ")" * 500 + " }}": "too deeply",
    "{{ " + "-" * 500 + "1 }}": "too deeply",
    "{% if t %}" * 500 + "{% endif %}" * 500: "too deeply",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}": "too deeply",
    "{{ 'É'.upper() }}": "beyond ASCII is not supported",
}


@pytest.mark.parametrize("template", REFUSED)
def test_refused(template: str) -> None:
    with pytest.raises(ValueError, match=REFUSED[template].replace("{%", r"\{%").replace("%}", r"%\}")):
        rendered(template)


def test_other_input() -> None:
    for template in (b"\xff", b"{{ '\xc3' }}"):
        with pytest.raises(ValueError, match="not UTF-8"):
            _core._template(template)
    made = _core._template(b"{{ a }}")
    for variables in (b"[]", b"{", b'{"a": 1, "a": 2}'):
        with pytest.raises((ValueError, OSError), match="chat_template"):
            _core._template_render(made, variables)
    with pytest.raises(TypeError):
        _core._template("text")
    assert rendered("{{ a }}\0b", {"a": "\0"}) == "\0\0b"


def test_marks() -> None:
    """Where the answers of a model are, in bytes; as transformers, in the text of the template itself."""
    template = "é{% for m in m %}{% generation %}{{ m.content }}{% endgeneration %}|{% endfor %}"
    text, marks = _core._template_render(_core._template(template.encode()), json.dumps(VALUES).encode())
    assert text.decode() == "éhi|Yo|None|"
    assert [text[marks[i] : marks[i + 1]] for i in range(0, 6, 2)] == [b"hi", b"Yo", b"None"]


def test_threads() -> None:
    """One template in many threads at once."""
    made = _core._template(b"{% for x in range(200) %}{{ x + k }},{% endfor %}")
    found: dict[int, bytes] = {}

    def run(k: int) -> None:
        for _ in range(20):
            found[k] = _core._template_render(made, json.dumps({"k": k}).encode())[0]

    threads = [threading.Thread(target=run, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {k: b"".join(b"%d," % (x + k) for x in range(200)) for k in range(8)}


KNOWN = ("not supported", "too large", "has no text", "needs more than", "may not change")


@needs_transformers
def test_random_templates_beside_jinja2() -> None:
    from transformers.utils.chat_template_utils import _compile_jinja_template

    full = os.environ.get("CHAINRULE_TEST_FULL", "0") != "0"
    seed = int(os.environ.get("CHAINRULE_TEST_SEED", "1"))
    counts: Counter[str] = Counter()
    for k in range(8000 if full else 500):
        template = Writer(seed * 1_000_000 + k).template()
        try:
            wanted: str | None = _compile_jinja_template(template).render(**VALUES)
        except Exception as e:  # whatever an expression raises
            wanted, why = None, f"{type(e).__name__}: {e}"
        if wanted is not None and (" at 0x" in wanted or "Markup(" in wanted):
            counts["without a text"] += 1
            continue
        try:
            found: str | None = rendered(template)
        except (ValueError, cr.Error) as e:
            found = None
            if wanted is not None and any(known in str(e) for known in KNOWN):
                counts["not supported"] += 1
                continue
            why = str(e)
        assert found == wanted, f"seed {seed}, template {k}: {template!r}\n{why if None in (found, wanted) else ''}"
        counts["equal" if found is not None else "refused by both"] += 1
    print(dict(counts))
    assert counts["equal"] > 0.4 * counts.total() and counts["not supported"] < 0.1 * counts.total()
