"""move.py ROOT MAPPING: move modules and rewrite every reference to them."""
import ast, os, re, subprocess, sys
sys.path.insert(0, os.path.dirname(__file__))
from graph import modules, read_mapping
root, mapping = sys.argv[1], read_mapping(sys.argv[2])
mapping = {k: v for k, v in mapping.items() if k != v}
packages = {"medstress.report.paper": "medstress.papers", "medstress.scheduler": "medstress.engine",
            "medstress.experiment.significance": "medstress.significance"}
DOC = {}
for line in open(os.path.join(os.path.dirname(__file__), "rooms.txt")):
    if "|" in line:
        k, v = line.rstrip("\n").split("|", 1); DOC["medstress." + k.strip()] = v.strip()
git = lambda *a: subprocess.run(["git", "-C", root, *a], check=True, capture_output=True, text=True).stdout
mods = modules(root + "/src")
missing = [k for k in mapping if k not in mods]
if missing: print("no such module:", missing); [mapping.pop(k) for k in missing]
# 1. imports of modules by `from package import module`
everything = [f for f in git("ls-files").split("\n") if f]
py = [f for f in everything if f.endswith(".py") and "/results/" not in f or f.startswith("src") and f.endswith(".py")]
names = {**mapping, **packages}
def rewrite_from(path):
    src = open(path, encoding="utf-8").read()
    try: tree = ast.parse(src)
    except SyntaxError: print("cannot parse", path); return
    lines = src.split("\n"); changes = []
    for n in ast.walk(tree):
        if isinstance(n, ast.ImportFrom) and n.level == 0 and n.module and n.module.split(".")[0] == "medstress":
            hit = [a for a in n.names if f"{n.module}.{a.name}" in mapping]
            if hit:
                out = []
                ind = " " * n.col_offset
                keep = [a for a in n.names if a not in hit]
                if keep: out.append(ind + f"from {n.module} import " + ", ".join(a.name + (f" as {a.asname}" if a.asname else "") for a in keep))
                for a in hit:
                    new = mapping[f"{n.module}.{a.name}"]; p, m = new.rsplit(".", 1)
                    alias = a.asname or a.name
                    out.append(ind + "from " + p.replace("medstress", "@@") + f" import {m}" + (f" as {alias}" if alias != m else ""))
                changes.append((n.lineno, n.end_lineno, out))
        elif isinstance(n, ast.ImportFrom) and n.level and "/src/" in path: print("relative import", path, n.lineno)
    for a, b, out in sorted(changes, reverse=True): lines[a - 1:b] = out
    if changes: open(path, "w", encoding="utf-8").write("\n".join(lines))
for f in py: rewrite_from(f"{root}/{f}")
# 2. moves
made = set()
def room(p):
    d = f"{root}/src/" + p.replace(".", "/")
    os.makedirs(d, exist_ok=True)
    if not os.path.exists(d + "/__init__.py") and p not in made:
        made.add(p)
order = list(mapping)
tmp = {}
for old in order:
    src = mods[old]; new = mapping[old]
    if src.endswith("__init__.py"): print("package mapped as module!", old)
    t = src + ".moving"; os.rename(src, t); tmp[old] = t
for old in order:
    new = mapping[old]
    parts = new.split(".")[:-1]
    for i in range(2, len(parts) + 1): room(".".join(parts[:i]))
    dst = f"{root}/src/" + new.replace(".", "/") + ".py"
    assert not os.path.exists(dst), dst
    os.rename(tmp[old], dst)
for p in made:
    with open(f"{root}/src/" + p.replace(".", "/") + "/__init__.py", "w") as f:
        f.write(f'"""{DOC.get(p, "TODO " + p)}"""\n')
    if p not in DOC: print("no docstring for", p)
for old, new in packages.items():
    d = f"{root}/src/" + old.replace(".", "/"); n = f"{root}/src/" + new.replace(".", "/")
    if os.path.exists(d + "/__init__.py"):
        left = [x for x in os.listdir(d) if x != "__pycache__"]
        os.remove(d + "/__init__.py")
        for x in left:
            if x != "__init__.py": os.rename(f"{d}/{x}", f"{n}/{x}"); print("moved", d, x)
# 3. dotted names and paths in text
dotted = {k: v for k, v in names.items()}
keys = sorted(dotted, key=len, reverse=True)
dot = re.compile(r"(?<![\w./])(" + "|".join(re.escape(k) for k in keys) + r")(?![\w])(?!\.(?:toml|md|json|org)\b)")
paths = {k.replace(".", "/") + ".py": v.replace(".", "/") + ".py" for k, v in mapping.items()}
pathre = re.compile(r"(?<![\w])(" + "|".join(re.escape(k) for k in sorted(paths, key=len, reverse=True)) + r")(?!\w)")
for f in git("ls-files", "--cached", "--others", "--exclude-standard").split("\n"):
    p = f"{root}/{f}"
    if not f or not os.path.isfile(p) or not f.endswith((".py", ".md", ".toml", ".cfg", ".j2", ".jinja", ".sh", "run", "Makefile")): continue
    if f.startswith(("benchmarks/results", "tests/frozen/folders", "docs/design/")) : continue
    s = open(p, encoding="utf-8").read()
    n = dot.sub(lambda m: dotted[m[1]], s)
    n = pathre.sub(lambda m: paths[m[1]], n)
    n = n.replace("from @@", "from medstress")
    if n != s: open(p, "w", encoding="utf-8").write(n)
print("moved", len(mapping))
