package main

import (
	"errors"
	"fmt"
	"log"
	"time"

	"worker/sharedbreaker"
)

func main() {
	payments, err := sharedbreaker.Get("payments", "max-failures=2 open-for=30s")
	if err != nil {
		log.Fatal(err)
	}
	receipt, err := sharedbreaker.Call(payments, func() (string, error) { return "paid", nil })
	if err != nil || receipt != "paid" {
		log.Fatal("not run: ", err)
	}
	for i := 0; i < 2; i++ {
		_ = payments.Do(func() error { return errors.New("refused") })
	}
	var rejected *sharedbreaker.Rejected
	err = payments.Do(func() error { panic("an open breaker runs nothing") })
	if !errors.As(err, &rejected) {
		log.Fatal("not rejected: ", err)
	}
	fmt.Printf("try again in %.0f s\n", rejected.RetryAfter.Seconds())

	// An answer 429 with Retry-After: 60 holds the calls of all processes, and is no failure.
	model, err := sharedbreaker.Get("model", "")
	if err != nil {
		log.Fatal(err)
	}
	_ = model.Do(func() error { return &sharedbreaker.Hold{For: time.Minute, Err: errors.New("HTTP 429")} })
	err = model.Do(func() error { panic("what is held runs nothing") })
	if !errors.As(err, &rejected) || !rejected.Held {
		log.Fatal("not held: ", err)
	}
}
