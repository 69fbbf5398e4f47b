import SharedBreaker
import TestSupport
import Testing

@testable import BreakerStore

@Suite struct SetAsideTests {
  @Test func `a failed attempt to set a store aside leaves every file where it was`() throws {
    let stage = try Stage()
    try stage.sharedStore().breaker("api").trip()
    let place = try StorePlace(stage.store)
    let before = try Files.all(in: place.directory)
    let identity = StoreFile.identity(of: stage.store)
    #expect(throws: StoreError.self) {
      try SetAside.replace(
        place, by: stage.store + ".missing", setAsideAs: stage.store + ".corrupt-now")
    }
    #expect(try Files.all(in: place.directory) == before)
    #expect(StoreFile.identity(of: stage.store) == identity)
  }
}
