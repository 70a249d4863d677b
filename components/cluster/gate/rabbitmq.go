package gate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"

	amqp "github.com/rabbitmq/amqp091-go"
)

// queueLife in milliseconds: the broker itself removes the queue of a probe that was killed.
const queueLife = 60_000

// RabbitMQ declares a durable queue, publishes to it with the broker's confirmation, and consumes.
func RabbitMQ(ctx context.Context, t Target) (err error) {
	fail := func(what string, err error) error { return fmt.Errorf("rabbitmq %s: %s: %w", t.RabbitMQ, what, err) }
	var wire net.Conn
	conn, err := amqp.DialConfig("amqp://"+t.RabbitMQ, amqp.Config{
		SASL:  []amqp.Authentication{&amqp.PlainAuth{Username: t.Broker.User, Password: t.Broker.Password}},
		Vhost: t.VHost,
		Dial: func(network, address string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			wire = c
			deadline, ok := ctx.Deadline()
			if !ok {
				return c, nil
			}
			return c, c.SetDeadline(deadline) // of the handshake; the library lifts it then
		},
	})
	if err != nil {
		return fail("log in", err)
	}
	// The library's calls take no context: they end when their connection does.
	stop := context.AfterFunc(ctx, func() { _ = wire.Close() }) // the calls' errors tell
	defer func() {
		if stop() {
			err = errors.Join(err, conn.Close())
		}
	}()
	ch, err := conn.Channel()
	if err != nil {
		return fail("open a channel", err)
	}
	queue := t.mark()
	if _, err := ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-expires": int32(queueLife)}); err != nil {
		return fail("declare a queue", err)
	}
	if err := ch.Confirm(false); err != nil {
		return fail("ask for confirmations", err)
	}
	value := nonce()
	confirmation, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", queue, true, false, amqp.Publishing{DeliveryMode: amqp.Persistent,
		Body: []byte(value)})
	if err != nil {
		return fail("publish a message", err)
	}
	if ok, err := confirmation.WaitContext(ctx); err != nil || !ok {
		return fail("wait for a message to be confirmed", cmp.Or(err, errors.New("the broker refused it")))
	}
	messages, err := ch.ConsumeWithContext(ctx, queue, "", true, false, false, false, nil)
	if err != nil {
		return fail("consume", err)
	}
	if err := receive(ctx, messages, value); err != nil {
		return fail("consume", err)
	}
	if _, err := ch.QueueDelete(queue, false, false, false); err != nil {
		return fail("delete a queue", err)
	}
	return nil
}

// receive waits for a message. Others are those of an earlier probe that was killed.
func receive(ctx context.Context, messages <-chan amqp.Delivery, value string) error {
	for {
		select {
		case m, open := <-messages:
			if !open {
				return cmp.Or(ctx.Err(), errors.New("the broker ended the connection"))
			}
			if string(m.Body) == value {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("a published message did not come: %w", ctx.Err())
		}
	}
}
