"""Random chat templates for test_templates.py: expressions by type, so that most of them have a value."""

from __future__ import annotations

import random

VALUES = {
    "s": "Hello World", "e": "", "u": "été naïve ½", "w": "  pad\n\tx ", "q": "it's \"q\"\\ \n<&>",
    "i": 3, "z": 0, "f": 2.5, "neg": -7, "t": True, "n": None, "big": 2**40, "l": [3, 1, 2],
    "ls": ["b", "A", "c", "a"], "d": {"a": 1, "b": "x", "items": 5}, "nest": {"x": {"y": [1, {"z": "q"}]}},
    "m": [
        {"role": "user", "content": "hi", "n": 2},
        {"role": "assistant", "content": "Yo", "n": 1},
        {"role": "tool", "content": None},
    ],
}  # fmt: skip
TEXTS = ["'a'", "'o'", "''", "' '", "'l'", "','", "'é'", "'\\n'", '"it\'s"', "'%s-%s'", "'abc,d,e'", "'-3.5'", "'x_y'"]
OF_TEXT = """|capitalize;|center(12);|d('x');|indent;|indent(2, true);|indent(1, blank=true);|lower;|replace('a','b')
|replace('l','L',1);|reverse;|string;|title;|tojson;|trim;|trim('Hd');|truncate(8);|truncate(8,true);|urlencode
|truncate(5, false, '…', 0);|upper;|first;|last;.upper();.lower();.title();.capitalize();.strip();.strip('Hd')
.lstrip();.rstrip();.replace('l','L');.replace('','-');.replace('o','0',1);.removeprefix('He');.removesuffix('ld')
.center(15);.ljust(14,'*');.rjust(14);.zfill(14);.swapcase();[1:];[::-1];[:2];[-3:];[0];[-1];[::2];[4:1:-1]
|tojson(ensure_ascii=true);|safe;|e;.casefold()""".replace("\n", ";").split(";")
OF_LIST = """|list;|map('upper')|list;|map(attribute='role')|list;|map('string')|list;|map('tojson')|list;|sort
|map('length')|list;|reverse|list;|sort(reverse=true);|sort(case_sensitive=true);|unique|list;|select|list;[1:]
|select('string')|list;|reject('none')|list;|select('in', ['a','b'])|list;|batch(2)|list;|slice(2)|list;[::-1]
|batch(2,'x')|list;[:1];|map('upper')""".replace("\n", ";").split(";")
TO_LIST = """.split();.split('o');.split(',');.split(' ',1);.rsplit('o',1);.splitlines();.splitlines(true);|list
.partition('o')|list;.rpartition('l')|list""".replace("\n", ";").split(";")
LISTS = """d|dictsort;d.items()|list;d|list;d.keys()|list;d.values()|list;nest.items()|list;m|selectattr('n')|list
m|selectattr('role','equalto','user')|list;m|rejectattr('role','in',['user'])|list;m|sort(attribute='role')
m|map(attribute='content', default='?')|list;m|sort(attribute='role,content');d|dictsort(by='value')
d|items|list;m|unique(attribute='role')|list;m|sort(attribute='n')""".replace("\n", ";").split(";")
ANY = """nest.x.y[1].z;nest['x']['y'][0];m[-1].role;m[0]['content'];d.get('a');d.get('zz','q');d['zz']|default('k')
m[2].content;{'k': i, 'l': [s]};(1, 'a');dict(a=s);ns.v;m[0].nope is defined;s;i;l;d;n;undef;t;m[0];f;d.items
undef.x;-s;m|sum(attribute='n');i|int;e|first;d.nope;ls|map('int')|list;s.encode();d|tojson(indent=2)
d|tojson(sort_keys=true);m|tojson(separators=(',',':'))""".replace("\n", ";").split(";")
TESTS = """defined;undefined;none;string;number;integer;float;boolean;mapping;sequence;iterable;callable;true;false
eq 1;equalto('a');ne 2;in [1,2];sameas true;sameas none;upper;lower;not defined;not none;not string;escaped
""".strip().replace("\n", ";").split(";")  # fmt: skip
SPACE = ["", " ", "\n", "\n  ", "  ", "a", "\n\n", "x\n"]
IN_LOOPS = """;{{ loop.index }};{{ loop.last }}{{ loop.first }};{{ loop.revindex0 }}/{{ loop.length }};{{ x }}{{ a }}
{{ loop.previtem }}|{{ loop.nextitem }};{{ loop.cycle(1,2) }};{% if loop.index > 2 %}{% break %}{% endif %}
{% if x == 1 %}{% continue %}{% endif %}{{x}};{{ loop.changed(x) }}""".replace("\n", ";").split(";")
CALLS = """{{ mm(1) }};{{ mm(i, q=s) }};{{ mm() }};{{ mm(1,2,3) }};{{ mm(1,z=2) }};
{% call mm(1) %}C{{ i }}{% endcall %};""".replace("\n", "").split(";")


class Writer:
    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)

    def any(self, depth: int) -> str:
        if depth <= 0:
            return self.r.choice(ANY)
        kinds = [self.text, self.text, self.number, self.list, self.truth, None]
        make = self.r.choice(kinds)
        return make(depth) if make else self.r.choice(ANY)

    def text(self, depth: int) -> str:
        r = self.r
        if depth <= 0 or r.random() < 0.2:
            return r.choice(["s", "u", "e", "w", "q", *TEXTS])
        inner, other = self.text(depth - 1), self.any(depth - 1)
        return r.choice(
            [f"({inner}){r.choice(OF_TEXT)}"] * 6
            + [f"({inner} ~ {other})", f"({inner} + {self.text(depth - 1)})", f"({inner} * {r.choice('02i')})"]
            + [f"{self.list(depth - 1)}|join({r.choice(TEXTS)})", f"({other})|string", f"({other})|tojson"]
            + [f"({inner} if {self.truth(depth - 1)} else {self.text(depth - 1)})"]
            + [f"('%s: %r %5.1f' % ({inner}, {other}, {self.number(depth - 1)}))"]
        )

    def number(self, depth: int) -> str:
        r = self.r
        if depth <= 0 or r.random() < 0.25:
            return r.choice(["i", "z", "f", "neg", "t", "1", "2", "-3", "0.5", "7", "1e3", "3.0", "big"])
        a, b, text = self.number(depth - 1), self.number(depth - 1), self.text(depth - 1)
        how = ["abs", "round", "round(1)", "round(1,'floor')", "round(0,'ceil')", "int", "float"]
        find = ["find('o')", "rfind('l')", "count('l')", "count('')", "find('o', 5)", "find('l', -3)"]
        return r.choice(
            [f"({a} {r.choice(['+', '-', '*', '/', '//', '%'])} {b})"] * 3
            + [f"({text})|length", f"({self.list(depth - 1)})|length", f"({text}).{r.choice(find)}", f"({a} ** 2)"]
            + [f"({a})|{r.choice(how)}", f"({text})|{r.choice(['int', 'float', 'int(5)', 'wordcount'])}"]
            + [f"-{r.choice(['i', 'f', 'neg', '3'])}", f"[{a}, {b}]|{r.choice(['sum', 'max', 'min', 'last'])}"]
        )

    def list(self, depth: int) -> str:
        r = self.r
        if depth <= 0 or r.random() < 0.25:
            return r.choice(["l", "ls", "m", "[]", '["x", "Y", ""]', "range(4)|list", "m|map(attribute='role')|list"])
        inner = self.list(depth - 1)
        return r.choice(
            [f"({inner}){r.choice(OF_LIST)}"] * 4
            + [f"({self.text(depth - 1)}){r.choice(TO_LIST)}", f"({inner} + {self.list(depth - 1)})"]
            + [f"[{self.any(depth - 1)}, {self.any(depth - 1)}]", r.choice(LISTS), r.choice(LISTS)]
        )

    def truth(self, depth: int) -> str:
        r = self.r
        if depth <= 0:
            return r.choice(["t", "e", "n", "undef", "l", "false", "z", "f"])
        a, sign = self.number(depth - 1), r.choice(["==", "!=", "<", ">", "<=", ">="])
        odd = r.choice(["odd", "even", "divisibleby 2", "lt 3", "gt(1)", "eq 1", "number", "integer"])
        text = self.text(depth - 1)
        ends = [".startswith('H')", ".endswith('d')", ".startswith(('a','H'))", ".isdigit()", ".isspace()"]
        ends += [".isupper()", ".isascii()", ".islower()", ".isalpha()", ".startswith('l', 2)"]
        return r.choice(
            [f"({self.any(depth - 1)} is {r.choice(TESTS)})"] * 2
            + [f"({a} is {odd})", f"({a} {sign} {self.number(depth - 1)})", f"(not {self.truth(depth - 1)})"]
            + [f"({text} {r.choice([sign, 'in', 'not in'])} {self.text(depth - 1)})", f"({text}){r.choice(ends)}"]
            + [f"({self.any(depth - 1)} in {self.list(depth - 1)})"]
            + [f"({self.truth(depth - 1)} {r.choice(['and', 'or'])} {self.truth(depth - 1)})"]
        )

    def tag(self, inside: str) -> str:
        r = self.r
        return "{%" + r.choice(["", "-", "+", " "]) + f" {inside} " + r.choice(["", "", "", "-", "+", " "]) + "%}"

    def printed(self) -> str:
        r = self.r
        return "{{" + r.choice(["", "", "-", "+"]) + f" {self.any(2)} " + r.choice(["", "", "-"]) + "}}"

    def body(self, depth: int) -> str:
        return "".join(self.statement(depth) for _ in range(self.r.randint(1, 3)))

    def statement(self, depth: int) -> str:
        r, tag = self.r, self.tag
        space, kind = r.choice(SPACE), r.random() if depth > 0 else 0.0
        if kind < 0.4:
            return space + self.printed() + r.choice(SPACE)
        inner = self.body(depth - 1)
        if kind < 0.5:
            other = tag("elif " + self.any(1)) + self.body(depth - 1) if r.random() < 0.3 else ""
            other += tag("else") + self.body(depth - 1) if r.random() < 0.5 else ""
            return space + tag("if " + self.any(2)) + inner + other + tag("endif") + r.choice(SPACE)
        if kind < 0.7:
            of = ["m", "l", "d.items()", "ls", "s", "range(4)", "undef", "d|dictsort", "[]", "[[1,2],[3,4]]"]
            target = r.choice(["x", "a, b", "x", "x"])
            keeps = r.choice(["", "", " if x", " if x != 1"]) if target == "x" else ""
            orelse = tag("else") + self.body(depth - 1) if r.random() < 0.2 else ""
            head = tag(f"for {target} in {r.choice([*of, self.any(1)])}{keeps}")
            return space + head + inner + r.choice(IN_LOOPS) + orelse + tag("endfor") + r.choice(SPACE)
        if kind < 0.8:
            return space + tag(f"set {r.choice(['x', 'i', 's', 'ns.v', 'a, b', 'n'])} = {self.any(2)}")
        if kind < 0.84:
            return space + tag(f"set x{r.choice(['', '|upper', '|trim|length'])}") + inner + tag("endset")
        if kind < 0.9:
            reads = r.choice(["", "{{ p }}{{ q }}", "{{ varargs }}{{ kwargs }}", "{{ caller() }}"])
            return space + tag(f"macro mm(p, q={self.any(1)})") + inner + reads + tag("endmacro") + r.choice(CALLS)
        block = r.choice([f"with x = {self.any(1)}", "filter upper", "filter trim", "generation"])
        if kind < 0.97:
            return space + tag(block) + inner + tag("end" + block.split()[0])
        return space + r.choice(["{# c {{ #}", "{#- c -#}", "{% raw %}{{ x }}{% if{% endraw %}"]) + r.choice(SPACE)

    def template(self) -> str:
        r = self.r
        text = self.body(3) if r.random() < 0.6 else "{{ " + self.any(4) + " }}"
        return "{% set ns = namespace(v=1) %}" + (text.replace("\n", "\r\n") if r.random() < 0.1 else text)
