import Glibc
import SharedBreaker
import TestSupport
import Testing

@testable import BreakerStore

/// Commands and the doctor with a file of slots in which something else has written.
@Suite(.timeLimit(.minutes(60))) struct DamagedSlotsTests {
  /// A part of the file, whose every word is overwritten.
  struct Part: CustomTestStringConvertible, Sendable {
    var testDescription: String
    var offset: Int
    var count: Int

    /// The doctor's words about it; nil if any number there can be true.
    var words: String?
  }

  private static let block = SlotFile.offset(ofBlock: 0)
  private static let slots = "damaged: the slots of 1 limit"

  private static func header(_ word: SlotBlock.HeaderWord) -> Int {
    block + SlotFile.offsetOfHeader + word.rawValue * 8
  }

  private static func line(_ word: SlotBlock.LineWord) -> Int {
    block + SlotFile.offsetOfSlots + word.rawValue * 8
  }

  static let parts = [
    Part(testDescription: "counts of waits", offset: header(.waits), count: 80, words: slots),
    Part(testDescription: "the gate", offset: header(.gate), count: 8, words: slots),
    Part(testDescription: "the revision", offset: header(.revision), count: 8),
    Part(testDescription: "the tickets", offset: header(.tickets), count: 8),
    Part(testDescription: "the extents", offset: header(.slots), count: 16, words: slots),
    Part(testDescription: "the times of looks", offset: header(.lookedAt), count: 8),
    Part(testDescription: "the losses", offset: header(.losses), count: 32, words: slots),
    Part(testDescription: "a slot", offset: line(.word), count: 8, words: slots),
    Part(testDescription: "when a call began", offset: line(.since), count: 8),
    Part(testDescription: "units", offset: line(.units), count: 8, words: slots),
    Part(testDescription: "the next slot", offset: line(.next), count: 8, words: slots),
    Part(testDescription: "a serial", offset: line(.serial), count: 8, words: slots),
    Part(testDescription: "the losses of a slot", offset: line(.loss), count: 8, words: slots),
    Part(
      testDescription: "places", offset: block + SlotFile.offsetOfHeader - 80, count: 80,
      words: slots),
    Part(
      testDescription: "callers that wait", offset: block + SlotFile.offsetOfWaiters, count: 640),
    Part(
      testDescription: "the table of breakers", offset: SlotFile.offsetOfBlocks + 8, count: 80,
      words: "damaged: the tables"),
    Part(
      testDescription: "the table of owners", offset: SlotFile.offsetOfOwners,
      count: SlotFile.owners * 8, words: "damaged: the tables"),
    Part(
      testDescription: "lines of owners", offset: SlotFile.offsetOfOwnerLines,
      count: SlotFile.owners * SlotFile.bytesOfLine, words: "damaged: the tables"),
    Part(testDescription: "bells", offset: SlotFile.offsetOfBells, count: 800),
    Part(
      testDescription: "all of it", offset: 4_096,
      count: SlotFile.offset(ofBlock: 1) - 4_096, words: "damaged: the tables"),
    Part(
      testDescription: "a whole block", offset: block, count: SlotFile.bytesOfBlock, words: slots),
  ]

  private static let commands = [
    ["status"], ["status", "--json"], ["show", "gpu"], ["show", "gpu", "--json"], ["metrics"],
    ["page"], ["check", "gpu"], ["doctor"],
  ]

  @Test(arguments: parts)
  func `no number in a damaged page ends a command, and the doctor repairs impossible ones`(
    part: Part
  ) throws {
    let clinic = try Clinic()
    clinic.cbctl(["policy", "gpu", "--set", "max-concurrent=2", "--set", "lost-calls=failure"])
    let store = SharedStore(path: clinic.store)
    defer { store.close() }
    let permit = try store.breaker("gpu").acquire().shared()
    defer { permit.succeed() }
    try overwrite(clinic.store + "-slots", part)
    for command in Self.commands {
      let answer = clinic.cbctl(command)
      #expect([0, 1, 75].contains(answer.code), "\(command): \(answer)")
    }
    let line = clinic.line("slots", of: clinic.doctor()).text
    guard let words = part.words else {
      #expect(!line.contains("damaged"), "\(line)")
      return
    }
    #expect(line.hasPrefix("warn  slots       \(words): "), "\(line)")
    let repaired = clinic.doctor("--repair")
    #expect(clinic.line("slots", of: repaired).text.contains("; repair: done: "), "\(repaired)")
    for _ in 0..<2 { #expect(clinic.cbctl(["run", "gpu", "--", "true"]).code == 0) }
    let after = clinic.line("slots", of: clinic.doctor())
    #expect(after.word == "ok", "\(after.text)")
  }

  @Test func `a file that is longer than it need be, or has holes, was not cut off`() throws {
    let clinic = try Clinic()
    clinic.useLimit()
    let path = clinic.store + "-slots"
    let size = try Files.read(path).count
    try Files.truncate(path, to: size + 12_345)
    #expect(clinic.line("slots", of: clinic.doctor()).word == "ok")
    // Zeros that were never written take no room on the disk.
    let bytes = try Files.read(path)
    Files.removeAll(path)
    try Files.write(path, Array(bytes.prefix(SlotFile.offset(ofBlock: 0))))
    try Files.changeMode(path, to: 0o600)
    try Files.truncate(path, to: size + 12_345)
    #expect(clinic.line("slots", of: clinic.doctor()).word == "ok")
    clinic.useLimit()
    try Files.truncate(path, to: size - 4_096)
    #expect(clinic.line("slots", of: clinic.doctor()).text.contains("the file was cut off"))
  }

  @Test(.enabled(if: isSuperuser, "needs root, to make a file immutable"))
  func `a file that is immutable is named, and run says that it keeps to no limit`() throws {
    let clinic = try Clinic()
    clinic.useLimit()
    let path = clinic.store + "-slots"
    // Not every file system knows the attribute.
    guard (try? Child.run("/usr/bin/chattr", ["+i", path])) != nil else { return }
    let line = clinic.line("slots", of: clinic.doctor()).text
    let run = clinic.cbctl(["run", "gpu", "--", "true"])
    _ = try Child.run("/usr/bin/chattr", ["-i", path])
    #expect(line.hasPrefix("warn  slots       this user cannot write to them: "), "\(line)")
    #expect(run.code == 0 && run.errors.contains("the command runs without its limit: "), "\(run)")
    #expect(clinic.line("slots", of: clinic.doctor()).word == "ok")
  }

  private func overwrite(_ path: String, _ part: Part) throws {
    let descriptor = unsafe open(path, O_WRONLY | O_CLOEXEC)
    try #require(descriptor >= 0)
    defer { close(descriptor) }
    let bytes = [UInt8](repeating: 0xFF, count: part.count)
    #expect(unsafe pwrite(descriptor, bytes, bytes.count, part.offset) == bytes.count)
  }
}
