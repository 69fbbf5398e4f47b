package main

import (
	"errors"
	"fmt"
	"log"

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
}
