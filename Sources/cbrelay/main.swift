import BreakerRelay

RelayProgram.run()
