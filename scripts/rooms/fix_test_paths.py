import re,subprocess,sys,os,collections
root=sys.argv[1]
files=[f for f in subprocess.run(["git","-C",root,"ls-files"],capture_output=True,text=True).stdout.split("\n") if f]
by=collections.defaultdict(list)
for f in files:
    if f.startswith("tests/") and f.endswith(".py") and os.path.exists(f"{root}/{f}"): by[f.rsplit("/",1)[1]].append(f)
pat=re.compile(r"tests/[\w/]+?\.py")
for f in files:
    if not f.endswith((".md",".py",".toml","Makefile")) or "CHANGELOG" in f: continue
    p=f"{root}/{f}"
    if not os.path.isfile(p): continue
    s=open(p,encoding="utf-8").read()
    def one(m):
        t=m[0]
        if os.path.exists(f"{root}/{t}"): return t
        c=by.get(t.rsplit("/",1)[1],[])
        if len(c)==1: return c[0]
        print("unknown",f,t,c); return t
    n=pat.sub(one,s)
    if n!=s: open(p,"w",encoding="utf-8").write(n); print("fixed",f)
