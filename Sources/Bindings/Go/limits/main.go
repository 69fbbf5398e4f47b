package main

import (
	"errors"
	"log"

	"worker/sharedbreaker"
)

func main() {
	gpu, err := sharedbreaker.Get("gpu", "max-concurrent=2 queue-timeout=10s")
	if err != nil {
		log.Fatal(err)
	}
	training, err := gpu.Claiming(2, true)
	if err != nil {
		log.Fatal(err)
	}
	done := make(chan error)
	err = training.Do(func() error {
		// It waits until the training has ended.
		go func() { done <- gpu.Do(func() error { return nil }) }()
		return nil
	})
	if err != nil || <-done != nil {
		log.Fatal("not run: ", err)
	}

	mail, err := sharedbreaker.Get("mail", "max-concurrent=1")
	if err != nil {
		log.Fatal(err)
	}
	err = mail.Do(func() error {
		// Without a queue, no caller waits.
		var rejected *sharedbreaker.Rejected
		if err := mail.Do(func() error { return nil }); !errors.As(err, &rejected) || !rejected.Busy {
			log.Fatal("not rejected: ", err)
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}
