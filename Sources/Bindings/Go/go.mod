module worker

go 1.18
