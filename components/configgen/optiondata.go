package configgen

// OptionData is a release's file of options, for comparing it with what the packages have. The error is
// fs.ErrNotExist if there is none.
func OptionData(release string) ([]byte, error) {
	return optionFiles.ReadFile("options/" + release + ".json")
}
