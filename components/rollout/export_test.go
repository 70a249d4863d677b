package rollout

// PodWaits is podWaits.
var PodWaits = podWaits
