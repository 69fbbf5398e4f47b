import SharedBreaker
import TestSupport
import Testing

@testable import BreakerStore

@Suite struct SetAsideTests {
  /// Something that is in the way, which a file cannot replace.
  @Test(arguments: ["", ".next", "-shm"])
  func `a failed attempt to replace a store leaves every file where it was`(
    suffix: String
  ) throws {
    let stage = try Stage()
    try stage.sharedStore().breaker("api").trip()
    let place = try StoreSite(stage.store)
    let name = stage.store + ".corrupt-now"
    let fresh = stage.store + ".fresh"
    try Files.write(fresh, [1])
    try Files.makeDirectory(name + suffix)
    let before = try Files.all(in: place.directory)
    let identity = StoreFile.identity(of: stage.store)
    #expect(throws: StoreError.self) { try Replacement.run(place, by: fresh, setAsideAs: name) }
    #expect(try Files.all(in: place.directory) == before)
    #expect(StoreFile.identity(of: stage.store) == identity)
    #expect(try Files.read(fresh) == [1])
  }

  @Test func `the doctor says that a repair was interrupted, and completes it`() throws {
    let stage = try Stage()
    let store = stage.sharedStore()
    try store.breaker("api").trip()
    store.close()
    // As a kill leaves it after the damaged store was set aside.
    let name = stage.store + ".corrupt-20260921T142300Z"
    _ = try Child.run("/bin/cp", [stage.store, name + ".next"])
    try Files.rename(stage.store, to: name)
    let error = #expect(throws: StoreError.self) { try store.examine() }
    #expect("\(error as Any)".contains("was interrupted"), "\(error as Any)")
    #expect(try store.repair().allSatisfy { $0.isWell || $0.check == "leftovers" })
    #expect(Files.exists(stage.store))
    #expect(Files.exists(name + "-wal"))
  }

  @Test func `a program completes the replacement of a missing store, and believes no half of one`()
    throws
  {
    let stage = try Stage()
    let store = stage.sharedStore()
    try store.breaker("api").trip()
    store.close()
    let name = stage.store + ".corrupt-20260921T142300Z"
    // A replacement was prepared, and then the store was deleted.
    _ = try Child.run("/bin/cp", [stage.store, name + ".next"])
    let old = stage.directory.file("old")
    try Files.rename(stage.store, to: old)
    #expect(throws: StoreError.self) { try store.connectToExisting() }
    try Files.rename(old, to: name)
    try store.connectToExisting()
    #expect(Files.exists(stage.store))
    #expect(!Files.exists(name + ".next"))
    store.close()
  }
}
