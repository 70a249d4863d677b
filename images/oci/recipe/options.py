# Prints the configuration options of oslo.config's namespaces:
# {section: {"options": [...], "deprecated": {old: new}, "types": {option: {"type": ..., ...}}}}.
# Arguments are patterns of namespaces.
import contextlib, fnmatch, importlib.metadata, io, json, logging, sys

from keystoneauth1 import loading
from oslo_config import generator, types

logging.disable(logging.CRITICAL)


def describe(t):
    """What oslo_config.types takes as a value. A class that is not oslo's own may take anything."""
    kinds = {types.String: "string", types.MultiString: "string", types.Boolean: "boolean", types.Integer: "integer",
             types.Port: "integer", types.Float: "float", types.List: "list", types.Dict: "dict", types.Range: "range",
             types.IPAddress: "address", types.Hostname: "host", types.HostAddress: "host", types.HostDomain: "host", types.URI: "uri"}
    # keystoneauth's options have Python's str for a type.
    out = {"type": "string" if t is str else kinds.get(type(t), "any")}
    if getattr(t, "choices", None):
        out["choices"] = list(t.choices)
    for name in ("min", "max"):
        if out["type"] in ("integer", "float") and getattr(t, name, None) is not None:
            out[name] = getattr(t, name)
    if isinstance(t, types.String):
        if t.ignore_case:
            out["ignoreCase"] = True
        if t.max_length:
            out["maxLength"] = t.max_length
        if t.quotes:
            out["quotes"] = True
    if type(t) is types.List:
        item = describe(t.item_type)
        if item != {"type": "string"}:
            out["items"] = item
    if getattr(t, "bounds", False) and out["type"] in ("list", "dict"):
        out["bounds"] = True
    if out["type"] == "uri" and t.schemes:
        out["schemes"] = list(t.schemes)
    return out


# The machine-readable format has a type's name only: not what a list's items are, nor which options may be given several times.
build_entry = generator._build_entry
generator._build_entry = lambda opt, *args: {**build_entry(opt, *args), "type": describe(opt.type), "multi": opt.multi}

names = sorted({e.name for e in importlib.metadata.entry_points(group="oslo.config.opts")
                if any(fnmatch.fnmatchcase(e.name, p) for p in sys.argv[1:])})
text = io.StringIO()
with contextlib.redirect_stdout(text):
    generator.main(["--format", "json"] + [a for n in names for a in ("--namespace", n)])
data = json.loads(text.getvalue())

plain = lambda name: name.replace("-", "_")
sections, kinds = {}, {}
for section, content in data["options"].items():
    sections.setdefault(section, set()).update(plain(o["name"]) for o in content["opts"])
    for o in content["opts"]:
        kind = {"type": o["type"]["type"], **o["type"]}
        if o["multi"]:
            kind["multi"] = True
        known = kinds.setdefault(section, {}).setdefault(plain(o["name"]), kind)
        if known != kind:  # two libraries declare it, each as it likes
            kinds[section][plain(o["name"])] = {"type": "any"}
# Sections for which keystoneauth's plugins register their options when they are used.
for options in sections.values():
    if "auth_type" in options:
        for plugin in ("password", "v3password", "v3applicationcredential"):
            options.update(plain(o.name) for o in loading.get_plugin_options(plugin))
deprecated = {}
for section, content in data["options"].items():
    for option in content["opts"]:
        for old in option.get("deprecated_opts") or []:
            was, name = old.get("group") or section, plain(old.get("name") or option["name"])
            if name in sections.get(was, ()):
                continue
            now = plain(option["name"])
            deprecated.setdefault(was, {}).setdefault(name, now if was == section else section + "." + now)
out = {}
for section in sorted(set(sections) | set(deprecated)):
    out[section] = {"options": sorted(sections.get(section, ()))}
    if section in deprecated:
        out[section]["deprecated"] = dict(sorted(deprecated[section].items()))
    constrained = {n: k for n, k in sorted(kinds.get(section, {}).items()) if k != {"type": "string"}}
    if constrained:
        out[section]["types"] = constrained
print(json.dumps(out))
