import TestSupport
import Testing

/// A process that is stopped at every step of making a store, and another one that goes on.
@Suite struct StoppedMakerTests {
  /// The lock timeout of the other process, and what it may wait in each second after that, in
  /// microseconds.
  private static let first = 50_000
  private static let later = 10_000

  private func player(_ arguments: [String]) throws -> Child {
    try Child(BuiltProducts.path(of: "fault-player"), arguments)
  }

  /// Plays one step; false if there are fewer steps.
  private func play(_ step: Int, isNew: Bool) throws -> Bool {
    let directory = try TemporaryDirectory()
    if !isNew {
      _ = try Child.run(BuiltProducts.path(of: "fault-player"), ["make", directory.path, "0"])
      // As after a reboot, so that the next process makes the index again.
      Files.removeAll(directory.store + "-shm")
    }
    let maker = try player(["make", directory.path, "\(step)"])
    guard maker.waitForStop() else {
      #expect(maker.waitForEnd() == 0)
      return false
    }
    let other = try player(["beside", directory.path])
    try expectBounds(of: try other.line(), "step \(step)")
    maker.resume()
    #expect(maker.waitForEnd() == 0, "step \(step)")
    try other.send("go on")
    #expect(try other.line() == "back")
    #expect(other.waitForEnd() == 0)
    return true
  }

  /// Expects that the waits of four calls, a second apart, are what was promised.
  private func expectBounds(of line: String?, _ what: String) throws {
    let waits = try #require(line).split(separator: " ").compactMap { Int($0) }
    #expect(waits.count == 4)
    #expect(waits.first ?? .max <= Self.first, "\(what): \(waits)")
    #expect(waits.dropFirst().allSatisfy { $0 <= Self.later }, "\(what): \(waits)")
  }

  @Test(.timeLimit(.minutes(60)))
  func `a lock that is held as a store is made holds others up no longer than promised`()
    throws
  {
    let directory = try TemporaryDirectory()
    try Files.makeDirectory(directory.file("state"))
    var lock: FileLock? = try FileLock(directory.store + "-lock")
    let other = try player(["beside", directory.path])
    try expectBounds(of: try other.line(), "made")
    #expect(lock != nil)
    lock = nil
    try other.send("go on")
    #expect(try other.line() == "back")
  }

  @Test(.timeLimit(.minutes(60)))
  func `a lock that is held as a store is replaced holds others up no longer than promised`()
    throws
  {
    let directory = try TemporaryDirectory()
    let other = try player(["beside", directory.path, "open"])
    #expect(try other.line() == "connected")
    var lock: FileLock? = try FileLock(directory.store + "-lock")
    Files.removeAll(directory.store)
    try other.send("go on")
    try expectBounds(of: try other.line(), "replaced")
    // The log belongs to the old file: no process may take it for the log of another one.
    #expect(Files.exists(directory.store + "-wal"))
    #expect(lock != nil)
    lock = nil
    try other.send("go on")
    #expect(try other.line() == "back")
    #expect(Files.exists(directory.store + "-wal.orphan"))
  }

  @Test(.timeLimit(.minutes(60)), arguments: [true, false])
  func `a process that is stopped as it makes a store holds others up no longer than promised`(
    isNew: Bool
  ) throws {
    var step = 1
    while try play(step, isNew: isNew) { step += Steps.stride }
    #expect(step > 20)
  }

  /// A program that closes a store last deletes its log and its index.
  ///
  /// In a directory in which every user may create files, both are checked before SQLite opens them.
  @Test(
    .timeLimit(.minutes(60)), .enabled(if: SmallDisk.isPermitted, "needs root, to mount a tmpfs"),
    arguments: [0o755, 0o1777] as [UInt32])
  func `a store is opened even if its log is deleted at any step of that`(mode: UInt32) throws {
    let directory = try TemporaryDirectory()
    // Where a new file never has the number of a deleted one.
    let disk = try SmallDisk(at: directory.file("state"), kilobytes: 4_096)
    try Files.changeMode(directory.file("state"), to: mode)
    for step in 1... {
      let maker = try player(["make", directory.path, "0"])
      #expect(maker.waitForEnd() == 0)
      let opener = try player(["make", directory.path, "\(step)"])
      try #require(opener.waitForStop())
      _ = try Database.value(directory.store, "SELECT count(*) FROM breaker")
      let isDeleted = !Files.exists(directory.store + "-wal")
      opener.resume()
      #expect(opener.waitForEnd() == 0, "step \(step)")
      guard isDeleted else {
        // From now on it holds the file.
        #expect(step > 3)
        break
      }
    }
    withExtendedLifetime(disk) {}
  }

  /// An entry that a member of the group puts in the place of a directory that root has just made.
  enum Swap: CaseIterable {
    /// A link to a directory of root's elsewhere.
    case link

    /// A directory of root's from beside it.
    case neighbour
  }

  @Test(
    .timeLimit(.minutes(60)), .enabled(if: SmallDisk.isPermitted, "needs root"),
    arguments: Swap.allCases)
  func `an entry that is swapped in for a new directory of root's at any step keeps its rights`(
    swap: Swap
  ) throws {
    var swapped = 0
    for step in 1... {
      let directory = try TemporaryDirectory()
      let victim = directory.file("victim")
      try Files.makeDirectory(victim)
      try Files.changeMode(victim, to: 0o700)
      try Files.write(victim + "/file", [])
      let before = try Files.permissions(of: victim)
      let maker = try player(["make", directory.path, "\(step)", "daemon"])
      try #require(maker.waitForStop())
      // The directory may have another name until it has its rights.
      let made = Files.names(in: directory.path).filter { ![".", "..", "victim"].contains($0) }
        .map(directory.file)
      // Its rights are given before the first file is in it.
      if made.contains(where: { Files.exists($0 + "/breakers.db-lock") }) {
        maker.kill()
        break
      }
      var found = victim
      for (number, path) in made.enumerated() {
        swapped += 1
        try Files.rename(path, to: directory.file("made\(number)"))
        switch swap {
        case .link: try Files.link(path, to: victim)
        case .neighbour where found == victim:
          try Files.rename(victim, to: path)
          found = path
        case .neighbour: break
        }
      }
      maker.resume()
      maker.waitForEnd()
      #expect(try Files.permissions(of: found) == before, "step \(step)")
    }
    #expect(swapped > 0)
  }

  @Test(.timeLimit(.minutes(60)), .enabled(if: SmallDisk.isPermitted, "needs root"))
  func `a pipe that is swapped in for the store at any step of opening it hangs no program`()
    throws
  {
    for step in 1... {
      let directory = try TemporaryDirectory()
      try Files.makeDirectory(directory.file("state"))
      try Files.changeMode(directory.file("state"), to: 0o1777)
      let first = try player(["make", directory.path, "0"])
      #expect(first.waitForEnd() == 0)
      let opener = try player(["make", directory.path, "\(step)"])
      guard opener.waitForStop() else {
        #expect(opener.waitForEnd() == 0)
        #expect(step > 20)
        break
      }
      let store = directory.store
      try Files.rename(store, to: store + ".old")
      try Files.makeFIFO(store)
      opener.resume()
      // It may fail, or go on with the file that it has open already.
      #expect(opener.waitForEnd() >= 0, "step \(step)")
    }
  }
}
