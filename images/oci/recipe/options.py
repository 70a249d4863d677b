# Prints the configuration options of oslo.config's namespaces: {section: {"options": [...], "deprecated": {old: new}}}.
# Arguments are patterns of namespaces.
import contextlib, fnmatch, importlib.metadata, io, json, logging, sys

from keystoneauth1 import loading
from oslo_config import generator

logging.disable(logging.CRITICAL)
names = sorted({e.name for e in importlib.metadata.entry_points(group="oslo.config.opts")
                if any(fnmatch.fnmatchcase(e.name, p) for p in sys.argv[1:])})
text = io.StringIO()
with contextlib.redirect_stdout(text):
    generator.main(["--format", "json"] + [a for n in names for a in ("--namespace", n)])
data = json.loads(text.getvalue())

plain = lambda name: name.replace("-", "_")
sections = {}
for section, content in data["options"].items():
    sections.setdefault(section, set()).update(plain(o["name"]) for o in content["opts"])
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
print(json.dumps(out))
