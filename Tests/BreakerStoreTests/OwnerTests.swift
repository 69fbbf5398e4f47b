import BreakerCore
import BreakerStore
import Glibc
import Testing

@Suite struct OwnerTests {
  @Test func `an owner does not count as gone if no descriptor is left to look it up`() async {
    await #expect(processExitsWith: .success) { try lookWithoutDescriptors() }
  }

  @Test func `an owner does not count as gone if it could not read its start time`() async {
    await #expect(processExitsWith: .success) { try identifyWithoutDescriptors() }
  }

  @Test func `a running process that cannot be examined is found, and is not gone`() async {
    await #expect(processExitsWith: .success) { try findWithoutDescriptors() }
  }

  @Test func `an owner is gone when no process has its pid`() {
    var other = ProcessTable.current()
    other.pid = 0x7FFF_FFFF
    #expect(ProcessTable.isGone(other))
    #expect(ProcessTable.process(other.pid) == nil)
    other.startTicks = 0
    #expect(ProcessTable.isGone(other))
  }
}

private func lookWithoutDescriptors() throws {
  let own = ProcessTable.current()
  precondition(!ProcessTable.isGone(own))
  var limit = rlimit(rlim_cur: 0, rlim_max: 0)
  unsafe setrlimit(__rlimit_resource_t(7), &limit)
  precondition(!ProcessTable.isGone(own))
}

private func identifyWithoutDescriptors() throws {
  var limit = rlimit()
  unsafe getrlimit(__rlimit_resource_t(7), &limit)
  let usual = limit.rlim_cur
  limit.rlim_cur = 0
  unsafe setrlimit(__rlimit_resource_t(7), &limit)
  let own = ProcessTable.current()
  limit.rlim_cur = usual
  unsafe setrlimit(__rlimit_resource_t(7), &limit)
  precondition(own.pid == getpid())
  precondition(!ProcessTable.isGone(own))
}

private func findWithoutDescriptors() throws {
  var limit = rlimit()
  unsafe getrlimit(__rlimit_resource_t(7), &limit)
  limit.rlim_cur = 0
  unsafe setrlimit(__rlimit_resource_t(7), &limit)
  guard let parent = ProcessTable.process(getppid()) else { preconditionFailure("not found") }
  precondition(!ProcessTable.isGone(parent))
  precondition(ProcessTable.process(0x7FFF_FFFF) == nil)
}
