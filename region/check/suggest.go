package check

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agext/levenshtein"

	"regiond.dev/regiond/region"
)

// maxSuggested bounds the words that are compared, in bytes: the distance costs the product of
// both lengths, and nobody mistypes a name of this length by one letter.
const maxSuggested = 64

// Closest is the candidate that was most likely meant by word, or "" when none is near: for what
// names fields or values of a region elsewhere.
func Closest(word string, candidates []string) string { return closest(word, candidates) }

// closest is the candidate that was most likely meant by word, or "" when none is near. Letter
// case is not counted; of equally near candidates the first is taken.
func closest(word string, candidates []string) string {
	if word == "" || len(word) > maxSuggested {
		return ""
	}
	lower := strings.ToLower(word)
	best, bestDistance := "", maxSuggested
	for _, c := range candidates {
		if c == "" || len(c) > maxSuggested || c == word {
			continue
		}
		candidate := strings.ToLower(c)
		distance := levenshtein.Distance(lower, candidate, nil)
		switch {
		case distance <= tolerance(lower):
		case sameLetters(lower, candidate):
			distance = 1 // "bcm" for "bmc": swapped letters are one slip, though two edits
		case len(lower) >= 4 && (strings.HasPrefix(candidate, lower) || strings.HasPrefix(lower, candidate) && len(candidate) >= 4):
			distance = 3 // "lease" for "leaseTime"
		default:
			continue
		}
		if distance < bestDistance {
			best, bestDistance = c, distance
		}
	}
	return best
}

// tolerance is how many edits are still a slip in a word of this length.
func tolerance(word string) int {
	switch n := len(word); {
	case n < 3:
		return 0
	case n < 6:
		return 1
	case n < 9:
		return 2
	default:
		return 3
	}
}

// choice is the suggestion for a word that is not among the choices. Releases of OpenStack have a
// number as well.
func choice(word string, choices []string) string {
	if release := releaseNumbers[word]; release != "" && slices.Contains(choices, string(release)) {
		return "did you mean " + quote(string(release)) + "?"
	}
	return didYouMean(word, choices, "choice")
}

// releaseNumbers of OpenStack, https://releases.openstack.org.
var releaseNumbers = map[string]region.OpenStackRelease{"2025.1": region.ReleaseEpoxy, "2026.1": region.ReleaseGazpacho}

// spelt names a character that can't be told from a space, or from a letter of ASCII if what was
// meant looks the same.
func (p Problem) spelt() Problem {
	guessed := strings.HasPrefix(p.Suggestion, "did you mean ")
	for i, c := range []rune(p.Value) {
		if c >= utf8.RuneSelf && (guessed || unicode.In(c, unicode.Zs, unicode.Cf)) {
			p.Message += fmt.Sprintf("; its character %d is %U, which is not ASCII", i+1, c)
			break
		}
	}
	return p
}

func sameLetters(a, b string) bool {
	if len(a) != len(b) || len(a) < 3 {
		return false
	}
	x, y := []byte(a), []byte(b)
	slices.Sort(x)
	slices.Sort(y)
	return string(x) == string(y)
}

// didYouMean is the suggestion for a wrong word: the nearest candidate, or all of them when they
// are few enough to be read.
func didYouMean(word string, candidates []string, noun string) string {
	if c := closest(word, candidates); c != "" {
		return "did you mean " + quote(c) + "?"
	}
	const readable = 12
	switch n := len(candidates); {
	case n == 0:
		return ""
	case n == 1:
		return "the only " + noun + " is " + quote(candidates[0])
	case n <= readable:
		return "there are the " + noun + "s " + quoteList(candidates)
	default:
		return "there are " + quoteList(candidates[:readable]) + " and others"
	}
}

func quoteList(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = quote(w)
	}
	return strings.Join(quoted, ", ")
}

// DidYouMean is the suggestion for a wrong word, for other packages that read what the operator
// wrote.
func DidYouMean(word string, candidates []string, noun string) string {
	return didYouMean(word, candidates, noun)
}
