"""graph.py ROOT MAPPING: sibling cycles after mapping."""
import ast, sys, os
from collections import defaultdict
def modules(src):
    out = {}
    for d, _, fs in os.walk(src + "/medstress"):
        for f in fs:
            if f.endswith(".py"):
                p = os.path.join(d, f)
                m = os.path.relpath(p, src)[:-3].replace("/", ".")
                if m.endswith(".__init__"): m = m[:-9]
                out[m] = p
    return out
def imports(mods):
    g = defaultdict(dict)
    for m, p in mods.items():
        tree = ast.parse(open(p).read())
        pkg = p.endswith("__init__.py")
        for n in ast.walk(tree):
            ts = []
            if isinstance(n, ast.Import): ts = [(a.name, None) for a in n.names]
            elif isinstance(n, ast.ImportFrom):
                base = n.module or ""
                if n.level:
                    parts = m.split(".") if pkg else m.split(".")[:-1]
                    parts = parts[: len(parts) - n.level + 1]
                    base = ".".join(parts + ([n.module] if n.module else []))
                ts = [(base + "." + a.name, base) for a in n.names]
            for full, base in ts:
                t = full if full in mods else base if base in mods else None
                if t and t != m: g[m].setdefault(t, n.lineno)
    return g
def read_mapping(path):
    mp = {}
    for line in open(path):
        line = line.split("#")[0].split()
        if len(line) == 2: mp["medstress." + line[0]] = "medstress." + line[1]
    return mp
if __name__ == "__main__":
    mods = modules(sys.argv[1] + "/src"); g = imports(mods)
    mp = read_mapping(sys.argv[2]) if len(sys.argv) > 2 else {}
    new = lambda m: mp.get(m, m)
    unmapped = [k for k in mp if k not in mods]
    if unmapped: print("no such module:", unmapped)
    import networkx as nx
    by_parent = defaultdict(lambda: nx.DiGraph()); why = defaultdict(list)
    for a, ts in g.items():
        for b in ts:
            x, y = new(a).split("."), new(b).split(".")
            i = 0
            while i < min(len(x), len(y)) and x[i] == y[i]: i += 1
            if i == len(x) or i == len(y): continue
            par = ".".join(x[:i]); s, t = x[i], y[i]
            by_parent[par].add_edge(s, t); why[par, s, t].append((new(a), new(b)))
    for par, G in sorted(by_parent.items()):
        for c in nx.strongly_connected_components(G):
            if len(c) > 1:
                print("CYCLE in", par, sorted(c))
                for s, t in G.subgraph(c).edges:
                    print("   ", s, "->", t, len(why[par, s, t]), why[par, s, t][:6])
    if "-l" in sys.argv:
        G = by_parent["medstress"]; C = nx.condensation(G)
        for gen in reversed(list(nx.topological_generations(C))):
            print([sorted(C.nodes[n]["members"]) for n in gen])
