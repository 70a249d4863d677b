package broker

import "regexp"

// Host returns the user of a compute host, which may read messages to this host but none to other
// hosts. oslo.messaging (oslo_messaging/_drivers/impl_rabbit.py), with [oslo_messaging_rabbit]
// use_queue_manager and hostname set, uses these names: TOPIC, TOPIC.HOST, TOPIC_fanout for the
// exchange, TOPIC_fanout_HOST:PROCESS:NUMBER and reply_HOST:PROCESS:NUMBER for queues. Replies go
// through the default exchange, which allows writing to any queue: permissions do not prevent a
// host from sending messages that it should not send.
func Host(name, password, host string) User {
	h := regexp.QuoteMeta(host)
	own := h + `:[a-z-]+:[0-9]+`
	// Topics that are sent to agents (neutron_lib/agent/topics.py,
	// neutron/api/rpc/handlers/resources_rpc.py).
	agents := `(q-agent-notifier-[a-z0-9_]+-[a-z]+|dhcp_agent|neutron-vo-[A-Za-z0-9]+-[0-9]+\.[0-9]+)`
	// nova-compute of 2026.1 listens to a second topic (RPC_TOPIC_ALT in nova/compute/rpcapi.py).
	const compute = `compute(-alt)?`
	return User{Name: name, Password: password,
		Permissions: []Permission{vhost("nova", compute, "|scheduler_fanout", h, own), vhost("neutron", agents, "", h, own)},
		Topics: []TopicPermission{
			{VHost: "nova", Exchange: "nova", Write: `^(conductor|` + compute + `\..*)$`, Read: `^` + compute + `(\.` + h + `)?$`},
			{VHost: "neutron", Exchange: "neutron", Write: `^q-(plugin|reports-plugin|l3-plugin|server-resource-versions)$`,
				Read: `^` + agents + `(\.` + h + `)?$`},
		}}
}

// vhost is the permission in the virtual host of a service, whose exchange has the same name.
// others are exchanges that are only published to.
func vhost(service, topics, others, host, own string) Permission {
	return Permission{VHost: service,
		Configure: `^(` + service + others + `|` + topics + `(\.` + host + `|_fanout(_` + own + `)?)?|reply_` + own + `)$`,
		Write:     `^(amq\.default|` + service + others + `|` + topics + `(\.` + host + `|_fanout_` + own + `)?|reply_` + own + `)$`,
		Read:      `^(` + service + `|` + topics + `(\.` + host + `|_fanout(_` + own + `)?)?|reply_` + own + `)$`}
}
