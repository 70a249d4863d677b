package configgen

import (
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// optionType is the type of an option, which one of oslo_config.types checks when the service
// starts. Nil: any text.
type optionType struct {
	// Type is string, boolean, integer, float, list, dict, range, address, host, uri, or any for a
	// class that is not oslo's own.
	Type string `json:"type"`
	// Choices are strings or numbers.
	Choices    []any    `json:"choices"`
	Min        *float64 `json:"min"`
	Max        *float64 `json:"max"`
	IgnoreCase bool     `json:"ignoreCase"`
	MaxLength  int      `json:"maxLength"`
	// Quotes: a list's items may be quoted, so that they can contain commas.
	Quotes bool `json:"quotes"`
	// Items of a list. Nil: strings.
	Items *optionType `json:"items"`
	// Bounds: a list or dict is enclosed in brackets or braces.
	Bounds  bool     `json:"bounds"`
	Schemes []string `json:"schemes"`
	// Multi: the option may be repeated; each line adds a value.
	Multi bool `json:"multi"`
}

// takes describes the accepted values.
func (t *optionType) takes() string {
	if t == nil {
		return "a text"
	}
	if len(t.Choices) > 0 {
		words := make([]string, len(t.Choices))
		for i, c := range t.Choices {
			words[i] = showValue(numeric(c))
		}
		return "one of " + strings.Join(words, ", ")
	}
	switch t.Type {
	case "boolean":
		return "true or false"
	case "integer":
		return "an integer" + t.limits()
	case "float":
		return "a number" + t.limits()
	case "list":
		if t.Items == nil {
			return "a list, items separated by commas"
		}
		return "a list, each item " + t.Items.takes()
	case "dict":
		return "NAME:VALUE pairs, separated by commas"
	case "range":
		return "a range of integers, FIRST-LAST"
	case "address":
		return "an IP address"
	case "host":
		return "a host name or an IP address"
	case "uri":
		return "a URL" + suffixed(" with the scheme ", strings.Join(t.Schemes, " or "))
	}
	if t.MaxLength > 0 {
		return fmt.Sprintf("at most %d characters", t.MaxLength)
	}
	return "a text"
}

func suffixed(before, s string) string {
	if s == "" {
		return ""
	}
	return before + s
}

func (t *optionType) limits() string {
	switch {
	case t.Min != nil && t.Max != nil:
		return fmt.Sprintf(" of %s to %s", plainNumber(*t.Min), plainNumber(*t.Max))
	case t.Min != nil:
		return " of at least " + plainNumber(*t.Min)
	case t.Max != nil:
		return " of at most " + plainNumber(*t.Max)
	}
	return ""
}

func plainNumber(f float64) string {
	if f == math.Trunc(f) {
		return new(big.Float).SetFloat64(f).Text('f', 0)
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// numeric converts numbers of JSON to those of the tree.
func numeric(v any) any {
	if f, ok := v.(float64); ok {
		return number(f)
	}
	return v
}

// hostName is a host name by RFC 1123, plus the underscore that oslo's HostDomain accepts.
var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([-A-Za-z0-9_]{0,61}[A-Za-z0-9_])?(\.[A-Za-z0-9_]([-A-Za-z0-9_]{0,61}[A-Za-z0-9_])?)*$`)

var integerRange = regexp.MustCompile(`^-?[0-9]+(-[0-9]+)?$`)

// fits reports whether oslo.config accepts the text.
func (t *optionType) fits(text string) bool {
	if t == nil {
		return true
	}
	if t.Type != "list" {
		text = strings.TrimSpace(text)
	}
	switch t.Type {
	case "boolean":
		return slices.Contains([]string{"true", "1", "on", "yes", "false", "0", "off", "no"}, strings.ToLower(text))
	case "integer":
		_, err := strconv.ParseInt(text, 10, 64)
		return text == "" || err == nil && t.inLimits(text)
	case "float":
		// Python reads 1e400, inf and nan as numbers, which are useless to any service.
		f, err := strconv.ParseFloat(text, 64)
		return text == "" || err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) && t.inLimits(text)
	case "list":
		return t.fitsList(text)
	case "dict":
		text = strings.TrimSuffix(strings.TrimPrefix(text, "{"), "}")
		return text == "" || strings.Contains(text, ":")
	case "range":
		return integerRange.MatchString(text)
	case "address":
		_, err := netip.ParseAddr(text)
		return err == nil
	case "host":
		_, err := netip.ParseAddr(text)
		return err == nil || hostName.MatchString(text)
	case "uri":
		u, err := url.Parse(text)
		return err == nil && u.Scheme != "" && u.Host != "" && (len(t.Schemes) == 0 || slices.Contains(t.Schemes, u.Scheme))
	case "any":
		return true
	}
	return (t.MaxLength == 0 || len([]rune(text)) <= t.MaxLength) && t.chosen(text)
}

func (t *optionType) inLimits(text string) bool {
	f, err := strconv.ParseFloat(text, 64)
	return err == nil && (t.Min == nil || f >= *t.Min) && (t.Max == nil || f <= *t.Max) && t.chosen(text)
}

func (t *optionType) chosen(text string) bool {
	return len(t.Choices) == 0 || slices.ContainsFunc(t.Choices, func(c any) bool {
		s, _ := printed(numeric(c)) // choices are strings and numbers
		return s == text || t.IgnoreCase && strings.EqualFold(s, text)
	})
}

// fitsList checks each item. Like oslo.config, it joins an item that does not fit with the next
// one.
func (t *optionType) fitsList(text string) bool {
	text = strings.TrimRight(strings.TrimSpace(text), ",")
	if t.Bounds {
		inner, begins := strings.CutPrefix(text, "[")
		inner, ends := strings.CutSuffix(inner, "]")
		if !begins || !ends {
			return false
		}
		text = inner
	}
	if text == "" {
		return true
	}
	open := ""
	for part := range strings.SplitSeq(text, ",") {
		if open != "" {
			part = open + "," + part
		}
		if open = ""; !t.Items.fits(part) {
			open = part
		}
	}
	return open == ""
}

// single reports whether the option accepts only one value, not a list.
func (t *optionType) single() bool {
	return t == nil || !t.Multi && t.Type != "list" && t.Type != "dict" && t.Type != "any"
}
