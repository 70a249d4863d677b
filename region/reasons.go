package region

// Reasons of all conditions of an OpenStackCluster, and what status says of a server without any.
const (
	// ReasonNotChecked: the regiond that runs has not checked it since it started. Its status, if it has
	// one, is that of an earlier process.
	ReasonNotChecked = "NotChecked"
)

// Reasons of the gates of an OpenStackCluster.
const (
	// ReasonProved: the service was seen to work; the message says by what.
	ReasonProved = "Proved"
	// ReasonStarting: a workload or schema job of the service is not ready yet; the message names it
	// and says why.
	ReasonStarting = "Starting"
	// ReasonSchemaJobFailed: Kubernetes has stopped retrying the service's schema job. regiond starts
	// it again after a minute.
	ReasonSchemaJobFailed = "SchemaJobFailed"
	// ReasonFirstProbe: the service runs and has not been probed yet.
	ReasonFirstProbe = "Probing"
	// ReasonProbeFailed: the service runs and its last probe failed. It is probed again every few
	// seconds, or every minute if somebody has to change something first.
	ReasonProbeFailed = "ProbeFailed"
	// ReasonEarlierGate: a gate that comes before, or that the service needs, has not been passed.
	ReasonEarlierGate = "EarlierGate"
)

// Reasons of the condition Configured of an OpenStackCluster.
const (
	// ReasonApplied: the configuration was rendered and applied, and all workloads run it.
	ReasonApplied = "Applied"
	// ReasonRollingOut: the configuration was rendered, and a workload does not run it yet; the
	// message names the workload.
	ReasonRollingOut = "RollingOut"
	// ReasonApplyFailed: the API server refused an object, or could not be reached. It is tried again.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonConfigurationRefused: the declaration can't be rendered, e.g. because of a value or a
	// patch; the message says where.
	ReasonConfigurationRefused = "ConfigurationRefused"
	// ReasonDatabaseMissing: the cluster's database was there before and is not now. None is created
	// in its place.
	ReasonDatabaseMissing = "DatabaseMissing"
	// ReasonDiskFull: the disk of the databases has too little free space. Nothing is rolled out until
	// it has more.
	ReasonDiskFull = "DiskFull"
	// ReasonNotConfigurable: something that the configuration depends on is missing, e.g. the
	// release's images.
	ReasonNotConfigurable = "NotConfigurable"
	// ReasonNotPinned: the cluster runs what an earlier regiond rolled out, and this one can't tell
	// from which templates and images. Nothing of it is changed until the next `regiond apply`.
	ReasonNotPinned = "NotPinned"
	// ReasonReleaseRefused: the declared release is not the one in force, and can't be reached from
	// it. The one in force stays.
	ReasonReleaseRefused = "ReleaseRefused"
	// ReasonSecretsMissing: secrets that were generated before are missing. Others would lock services
	// out of their own data.
	ReasonSecretsMissing = "SecretsMissing"
	// ReasonSecretStoreUnavailable: the store that the cluster's secrets come from can't be read, or
	// what was asked of it can't be removed. The cluster has all its secrets itself and goes on.
	ReasonSecretStoreUnavailable = "SecretStoreUnavailable"
	// ReasonSecretStoreRefused: the entry of the cluster's secret store is incomplete, malformed or not
	// what services use. They go on with what they use.
	ReasonSecretStoreRefused = "SecretStoreRefused"
	// ReasonTemplatesMissing: the templates that the cluster is pinned to are missing, damaged, or of
	// a newer regiond's format.
	ReasonTemplatesMissing = "TemplatesMissing"
)

// Reasons of the condition Nodes of an OpenStackCluster.
const (
	// ReasonNodesReady: all nodes run their configuration, are up and are mapped to their cell.
	ReasonNodesReady = "Ready"
	// ReasonNoNodes: no host is a compute host of the cluster.
	ReasonNoNodes = "NoNodes"
	// ReasonNodesChanging: nodes have got a changed configuration and are about to show that they are
	// up with it.
	ReasonNodesChanging = "NodesChanging"
	// ReasonNodesNotReady: some nodes are not ready; the message names one and says why.
	ReasonNodesNotReady = "NodesNotReady"
	// ReasonRolloutStopped: a changed configuration has failed on a host, and reaches no other one.
	ReasonRolloutStopped = "RolloutStopped"
	// ReasonWaitingForDrain: what is left of a change would cut off guests; it waits until those hosts
	// have none, or for consent.
	ReasonWaitingForDrain = "WaitingForDrain"
)

// Reasons of the condition Ready of an OpenStackCluster.
const (
	// ReasonClusterReady: all gates are passed and all nodes are ready.
	ReasonClusterReady = "Ready"
	// ReasonClusterNotReady: another condition is not true; the message is that of the first one.
	ReasonClusterNotReady = "NotReady"
)

// Reasons of the condition Healthy of a Host. Of several the first is given, and the message says all.
const (
	// ReasonHealthy: the agent found nothing wrong.
	ReasonHealthy = "Healthy"
	// ReasonUnitsFailed: units of systemd have failed.
	ReasonUnitsFailed = "UnitsFailed"
	// ReasonFileSystemFull: a file system is short of blocks or inodes.
	ReasonFileSystemFull = "DiskFull"
	// ReasonClockWrong: the host's clock differs from the API server's by so much that tokens and certificates become unreliable.
	ReasonClockWrong = "ClockWrong"
	// ReasonObservationFailed: the agent could not observe a part of the host.
	ReasonObservationFailed = "ObservationFailed"
)

// Reasons of the condition TunnelsPass of a Host.
const (
	// ReasonTunnelsPass: no other end of a tunnel is known that large packets do not get to.
	ReasonTunnelsPass = "Passed"
	// ReasonTunnelsBlocked: large packets do not get to other ends of tunnels that small ones get to; the message names them.
	ReasonTunnelsBlocked = "MTUTooSmall"
)

// Reasons of the condition Configured of a Host.
const (
	// ReasonConfigurationApplied: the host holds to the configuration that is stored for it, and each service runs with its files.
	ReasonConfigurationApplied = "Applied"
	// ReasonConfigurationApplying: a configuration is being applied.
	ReasonConfigurationApplying = "Applying"
	// ReasonConfigurationApplyFailed: a configuration could not be applied completely; the agent tries again.
	ReasonConfigurationApplyFailed = "ApplyFailed"
	// ReasonDrifted: something else changed files or services of the configuration; the agent repairs them.
	ReasonDrifted = "Drifted"
	// ReasonRolledBack: a configuration cut the host off from its control plane and was rolled back.
	// It is not tried again until it changes.
	ReasonRolledBack = "RolledBack"
	// ReasonServicesStarting: the configuration is in place, and services are starting.
	ReasonServicesStarting = "ServicesStarting"
	// ReasonServiceFailed: a service of the configuration does not run, or runs with other files.
	ReasonServiceFailed = "ServiceFailed"
	// ReasonConfigurationInvalid: the configuration that is stored for the host can't be read. The last one stays in force.
	ReasonConfigurationInvalid = "ConfigurationInvalid"
	// ReasonConfigurationUnknown: the configuration is in a format that the host's agent does not
	// know, or has fields that it does not know. The last one stays in force.
	ReasonConfigurationUnknown = "ConfigurationUnknown"
)

// Reasons of a Server's conditions. Scripts match on them: they are not renamed.
const (
	// ReasonAnswered: the BMC answers and accepts the credentials.
	ReasonAnswered = "Answered"
	// ReasonProbing: the BMC is being asked, by this process for the first time or because its last
	// answer is old.
	ReasonProbing = "Probing"
	// ReasonUnreachable: the network or the host of the BMC says that nobody listens, or why is not
	// known. It is asked again with back-off, as for all reasons below that are not about credentials.
	ReasonUnreachable = "Unreachable"
	// ReasonNoAnswer: nothing comes back from the BMC.
	ReasonNoAnswer = "NoAnswer"
	// ReasonBMCBusy: the BMC can't do this in its present state.
	ReasonBMCBusy = "Busy"
	// ReasonBMCInitializing: the BMC starts or updates its firmware.
	ReasonBMCInitializing = "Initializing"
	// ReasonSessionsExhausted: all sessions of the BMC are in use.
	ReasonSessionsExhausted = "SessionsExhausted"
	// ReasonProtocolError: the BMC answers what the protocol does not allow.
	ReasonProtocolError = "ProtocolError"
	// ReasonUnsupportedByBMC: the BMC can't do this, or not in the way that is needed.
	ReasonUnsupportedByBMC = "UnsupportedByBMC"
	// ReasonBootOverrideIgnored: the BMC accepts a boot device and does not keep it.
	ReasonBootOverrideIgnored = "BootOverrideIgnored"
	// ReasonPowerStateUnchanged: the BMC accepts a power command that has no effect.
	ReasonPowerStateUnchanged = "PowerStateUnchanged"
	// ReasonBMCSessionsClosed: regiond is shutting down.
	ReasonBMCSessionsClosed = "Closed"
	// ReasonBMCKeyRequired: the BMC has a key of its own (IPMI's K_G), and the credentials have none.
	ReasonBMCKeyRequired = "BMCKeyRequired"
	// ReasonBMCKeyRefused: the BMC has another key than the credentials, or none.
	ReasonBMCKeyRefused = "BMCKeyRefused"
	// ReasonOrderFailed: the BMC accepted an order and did not carry it out. It is tried again with
	// back-off.
	ReasonOrderFailed = "OrderFailed"
	// ReasonAuthenticationFailed: the BMC has another password, or does not know the user. Refused
	// credentials are tried again when they change, and else at long intervals only.
	ReasonAuthenticationFailed = "AuthenticationFailed"
	// ReasonCredentialsInvalid: no BMC can hold credentials like these.
	ReasonCredentialsInvalid = "CredentialsInvalid"
	// ReasonPrivilegeInsufficient: the BMC's user may log in, but not do what is needed.
	ReasonPrivilegeInsufficient = "PrivilegeInsufficient"
	// ReasonCredentialsMissing: there is no Secret of the name that spec.bmc.credentials gives.
	ReasonCredentialsMissing = "CredentialsMissing"
	// ReasonDuplicateIdentity: two Servers are one machine. Neither is touched.
	ReasonDuplicateIdentity = "DuplicateIdentity"

	// ReasonBMCMoved: the server's BMC has another address than before.
	ReasonBMCMoved = "BMCMoved"
	// ReasonMovePending: it seems to have another address, and the old one is watched for some more
	// searches.
	ReasonMovePending = "MovePending"
	// ReasonIdentityConflict: a BMC at another address has this server's identity, too; or a machine
	// that netboots has it in part.
	ReasonIdentityConflict = "IdentityConflict"
	// ReasonIdentityUncertain: a BMC at another address has the server's system UUID or serial number,
	// not both.
	ReasonIdentityUncertain = "IdentityUncertain"
	// ReasonDeclaredElsewhere: the server's BMC was found at another address than region.yaml
	// declares.
	ReasonDeclaredElsewhere = "DeclaredElsewhere"
	// ReasonNameTaken: another machine would be discovered by this server's name.
	ReasonNameTaken = "NameTaken"

	// ReasonNoIdentity: nothing is known by which the machine could be recognised when it netboots.
	ReasonNoIdentity = "NoIdentity"
	// ReasonNotInspected: the machine has not reported its inventory yet.
	ReasonNotInspected = "NotInspected"
	// ReasonInspected: the machine reported its inventory.
	ReasonInspected = "Inspected"
	// ReasonInventoryLost: the server is in service, and its inventory is not known any more.
	ReasonInventoryLost = "InventoryLost"

	// ReasonRunningUnknown: the machine is on and regiond did not start what it runs. It is left
	// alone.
	ReasonRunningUnknown = "RunningUnknown"
	// ReasonShuttingDown: the machine was asked to shut down, by a consent that the message names.
	ReasonShuttingDown = "ShuttingDown"
	// ReasonNetbooting: the machine is off and is powered on for a network boot.
	ReasonNetbooting = "Netbooting"
	// ReasonWaitingForNetboot: it was powered on, and has not asked for its script yet.
	ReasonWaitingForNetboot = "WaitingForNetboot"
	// ReasonNetbootTimeout: it was powered on and never asked, or was told to boot its disk. It is
	// tried again with back-off.
	ReasonNetbootTimeout = "NetbootTimeout"
	// ReasonLoadingInstaller: it was given a ticket, and loads the installer.
	ReasonLoadingInstaller = "LoadingInstaller"
	// ReasonInstallerSilent: the installer stopped to report. It is tried again with back-off.
	ReasonInstallerSilent = "InstallerSilent"
	// ReasonInstallerFailed: the installer reported an error. It is tried again with back-off.
	ReasonInstallerFailed = "InstallerFailed"
	// ReasonPowerLost: the machine was off before its installation was complete. It is tried again
	// with back-off.
	ReasonPowerLost = "PowerLost"

	// ReasonNotInstalled: nothing is installed yet.
	ReasonNotInstalled = "NotInstalled"
	// ReasonWaitingForInspection: what is to be installed is decided by an inventory that is not there
	// yet.
	ReasonWaitingForInspection = "WaitingForInspection"
	// ReasonInstalled: the disk holds an installation of this very server.
	ReasonInstalled = "Installed"
	// ReasonNoProfile: no profile of region.yaml fits the machine. Like the four below, it holds until
	// what is declared, or the hardware, changes; nothing is written.
	ReasonNoProfile = "ProfileNotMatched"
	// ReasonProfileUnknown: the profile that the server names is not in region.yaml.
	ReasonProfileUnknown = "ProfileUnknown"
	// ReasonDiskNotSelected: not exactly one disk fits, or it holds data that may not be overwritten,
	// or can't be read.
	ReasonDiskNotSelected = "DiskNotSelected"
	// ReasonNetworkNotResolved: the profile's network names interfaces that the machine does not have.
	ReasonNetworkNotResolved = "NetworkNotResolved"
	// ReasonMarkerContradictory: more than one disk carries a complete installation of the server.
	ReasonMarkerContradictory = "MarkerContradictory"
	// ReasonRetired: the server is out of service, and off.
	ReasonRetired = "Retired"
	// ReasonRetiring: the server is to be out of service, and not yet off.
	ReasonRetiring = "Retiring"

	// ReasonGuestsOnHost: a reinstallation waits until no guest is on the host, or until that can be
	// shown.
	ReasonGuestsOnHost = "GuestsOnHost"
	// ReasonSurveying: a reinstallation waits for the answer whether guests are on the host.
	ReasonSurveying = "Surveying"
	// ReasonOldSystemRemains: a reinstallation waits until the cloud has forgotten the old system of
	// the host.
	ReasonOldSystemRemains = "OldSystemRemains"

	// ReasonNotYetSeen: this process has not heard the host since it started.
	ReasonNotYetSeen = "NotYetSeen"
	// ReasonWaitingForAgent: the installed system's agent has not joined yet.
	ReasonWaitingForAgent = "WaitingForAgent"
	// ReasonAgentSilent: the installed system's agent did not join in time.
	ReasonAgentSilent = "AgentSilent"
	// ReasonWaitingForHeartbeat: the agent joined, and its first heartbeat is due.
	ReasonWaitingForHeartbeat = "WaitingForHeartbeat"
	// ReasonWaitingForHealth: the agent has not said yet how the host is.
	ReasonWaitingForHealth = "WaitingForHealth"
	// ReasonPoweredOff: the host is off.
	ReasonPoweredOff = "PoweredOff"
	// ReasonHostSilent: the host is on and sends no heartbeat.
	ReasonHostSilent = "HostSilent"
	// ReasonCertificateExpired: the host was off for longer than its certificate lives. `regiond
	// server readmit` lets it back.
	ReasonCertificateExpired = "CertificateExpired"
	// ReasonHostUnhealthy: the agent reports that something is wrong.
	ReasonHostUnhealthy = "HostUnhealthy"
	// ReasonHostHealthy: the agent reports that nothing is wrong.
	ReasonHostHealthy = "HostHealthy"

	// ReasonRemovedFromRegion: the server came from region.yaml and is no longer listed there.
	ReasonRemovedFromRegion = "RemovedFromRegion"
)

// endBySelf are the reasons of conditions that are not true yet and become so without anybody's
// help.
var endBySelf = map[string]bool{
	ReasonNotChecked: true, ReasonStarting: true, ReasonEarlierGate: true, ReasonRollingOut: true, ReasonClusterNotReady: true, ReasonNodesChanging: true,
	ReasonProbing: true, ReasonBMCBusy: true, ReasonBMCInitializing: true, ReasonBMCSessionsClosed: true, ReasonMovePending: true,
	ReasonNotInspected: true, ReasonShuttingDown: true, ReasonNetbooting: true, ReasonWaitingForNetboot: true, ReasonLoadingInstaller: true,
	ReasonNotInstalled: true, ReasonWaitingForInspection: true, ReasonRetiring: true, ReasonRetired: true, ReasonSurveying: true,
	ReasonNotYetSeen: true, ReasonWaitingForAgent: true, ReasonWaitingForHeartbeat: true, ReasonWaitingForHealth: true,
}

// EndsByItself says whether a condition with this reason becomes true without anybody's help.
func EndsByItself(reason string) bool { return endBySelf[reason] }

// Reasons of the condition BackedUp of a Region.
const (
	// ReasonBackedUp: the last backup was made as scheduled.
	ReasonBackedUp = "Succeeded"
	// ReasonBackupFailed: the last backup could not be made; the message says why. It is tried again
	// every ten minutes.
	ReasonBackupFailed = "BackupFailed"
	// ReasonBackupsNotPruned: backups are made, but those that are not kept any more can't be removed;
	// the message says why. It is tried again every ten minutes.
	ReasonBackupsNotPruned = "BackupsNotPruned"
	// ReasonBackupsBesideData: backups are made, on the disk that they are to be a copy of, e.g. since
	// what should be mounted at the destination is not.
	ReasonBackupsBesideData = "BackupsBesideData"
	// ReasonNoBackup: backups are declared, and none was made yet.
	ReasonNoBackup = "NoBackup"
)
