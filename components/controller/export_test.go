package controller

// Doubt is for tests of this package's start.
var Doubt = doubt
