package configgen

// OptionData returns a release's file of options, for comparison with the options of the packages.
// The error is fs.ErrNotExist if there is none.
func OptionData(release string) ([]byte, error) {
	return optionFiles.ReadFile("options/" + release + ".json")
}
