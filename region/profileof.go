package region

import "path"

// ProfileOf is the profile of a declared server, as far as the file says: the one that it names,
// else the first that matches. sure is false if an earlier profile, or this one, asks for what only
// an inventory tells. Nil: none matches for sure.
func ProfileOf(h *Hardware, s StaticServer) (p *Profile, sure bool) {
	sure = true
	for i := range h.Profiles {
		p := &h.Profiles[i]
		if s.Profile != "" {
			if p.Name == s.Profile {
				return p, true
			}
			continue
		}
		m := p.Match
		if named, err := path.Match(m.Name, s.Name); m.Name != "" && (err != nil || !named) {
			continue
		}
		if m.Name = ""; m.Empty() {
			return p, sure
		}
		sure = false
	}
	return nil, false
}

// Empty says that a match takes every server.
func (m ProfileMatch) Empty() bool {
	return m.Name == "" && m.Manufacturer == "" && m.Product == "" && len(m.SerialNumbers) == 0 && m.MinMemory == "" && m.MinCPUs == 0
}
