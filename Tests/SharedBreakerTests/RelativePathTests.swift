import Glibc
import SharedBreaker
import TestSupport
import Testing

@Suite struct RelativePathTests {
  @Test(.timeLimit(.minutes(60)))
  func `a relative path is resolved from the directory where the store was named`() async {
    await #expect(processExitsWith: .success) { try useFromElsewhere() }
  }
}

private func useFromElsewhere() throws {
  let stage = try Stage()
  precondition(unsafe chdir(stage.directory.path) == 0)
  let store = SharedStore(path: "breakers.db", options: StoreOptions(clock: stage.clock.clock))
  try store.breaker("api").trip()
  try Files.makeDirectory(stage.directory.file("elsewhere"))
  precondition(unsafe chdir("elsewhere") == 0)
  store.close()
  let state = try store.breaker("api").state
  precondition(state == .open)
  precondition(!Files.exists("breakers.db"))
}
