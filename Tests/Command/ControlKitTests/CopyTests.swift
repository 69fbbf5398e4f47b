import Glibc
import SharedBreaker
import TestSupport
import Testing

@testable import ControlKit

/// Copies of whole stores, and stores that are replaced by them.
struct CopyTests {
  private let bench = CommandBench()

  private var copy: String { "\(bench.folder)/copy.db" }

  private func fill() {
    _ = bench("run", "open", "--max-failures", "1", "--open-for", "1m", "--", "sh", "-c", "exit 3")
    _ = bench("run", "well", "--", "true")
    _ = bench("force", "forced", "observe", "--reason", "trial")
  }

  @Test func `a backup has everything, and is read as a store`() {
    fill()
    let answer = bench("backup", copy)
    #expect(answer.output == "\(copy): a copy of \(bench.path)\n", "\(answer.errors)")
    #expect(bench("--store", copy, "history").output == bench("history").output)
    #expect(bench("--store", copy, "status").output == bench("status").output)
    var status = stat()
    #expect(unsafe stat(copy, &status) == 0 && status.st_mode & 0o777 == 0o600)
    _ = bench("reset", "open")
    #expect(bench("backup", copy).code == 0)
    #expect(bench("--store", copy, "check", "open").output.hasPrefix("permitted"))
    #expect(!bench.files.contains { $0.contains(".new-") }, "\(bench.files)")
  }

  @Test func `a restored store is as it was, and the earlier one is kept`() throws {
    fill()
    let history = bench("history").output
    #expect(bench("backup", copy).code == 0)
    _ = bench("delete", "well", "--force")
    _ = bench("trip", "later")
    let answer = bench("restore", copy)
    #expect(
      answer.output.hasPrefix("\(bench.path): restored from \(copy); the earlier one is now "))
    #expect(bench("history").output == history)
    #expect(bench("check", "open").output == "rejected: open, retry in 1m\n")
    #expect(bench("show", "forced").output.contains("trial"))
    #expect(bench("show", "well").output.contains("successes"))
    #expect(bench("doctor").output.contains("replaced-"))
    let aside = try #require(answer.output.split(separator: " ").last).dropLast()
    #expect(bench("--store", String(aside), "check", "later").output.hasPrefix("rejected"))
    // One copy restores any number of times.
    #expect(bench("restore", copy).code == 0)
  }

  @Test func `a copy that was looked at is replaced with everything beside it`() throws {
    fill()
    #expect(bench("backup", copy).code == 0)
    // Each of them opens the copy as a store, and leaves a log.
    #expect(bench("--store", copy, "status").code == 0)
    #expect(bench("--store", copy, "reset", "open").code == 0)
    #expect(bench.files.contains("copy.db-wal"))
    for number in 0..<300 { _ = bench("trip", "more-\(number)") }
    #expect(bench("backup", copy).code == 0)
    // Where a file system keeps no extended attributes, a program would take it for the new copy's.
    #expect(!bench.files.contains("copy.db-wal"))
    let history = bench("history").output
    #expect(bench("restore", copy).code == 0)
    #expect(bench("history").output == history)
    #expect(bench("check", "more-299").output.hasPrefix("rejected"))
  }

  @Test func `what lies at the path of a copy is kept unless it is one`() throws {
    fill()
    let letter = "\(bench.folder)/letter"
    try Files.write(letter, Array("dear friend".utf8))
    #expect(bench("backup", letter).errors.contains("is no copy of a store"))
    #expect(try Files.read(letter) == Array("dear friend".utf8))
    for suffix in ["-wal", "-counters", "-lock"] {
      let answer = bench("backup", bench.path + suffix)
      #expect(answer.errors.contains("cannot be the store itself"), "\(answer.errors)")
    }
    #expect(bench("backup", bench.folder).code != 0)
    #expect(bench("backup", bench.folder + "/").code != 0)
    let used = SharedStore(path: copy, options: bench.options)
    try used.breaker("theirs").trip()
    #expect(bench("backup", copy).errors.contains("is a store that is in use"))
    #expect(try used.snapshot(of: "theirs")?.trips == 1)
    used.close()
  }

  @Test func `a backup restores where there is no store`() {
    fill()
    #expect(bench("backup", copy).code == 0)
    let other = CommandBench()
    let answer = other("restore", copy)
    #expect(answer.output == "\(other.path): restored from \(copy)\n", "\(answer.errors)")
    #expect(other("check", "open").output == "rejected: open, retry in 1m\n")
    #expect(!other.files.contains { $0.contains("replaced") || $0.contains(".new-") })
  }

  @Test func `what is no sound copy changes nothing`() throws {
    fill()
    #expect(bench("backup", copy).code == 0)
    let before = bench("history").output
    let bytes = try Files.read(copy)
    try Files.write(copy, Array(bytes.prefix(bytes.count / 2)))
    #expect(bench("restore", copy).errors.contains("is damaged"))
    try Files.write(copy, Array("no store".utf8))
    #expect(bench("restore", copy).errors.contains("is not a breaker store"))
    try Files.write(copy, [])
    #expect(bench("restore", copy).code != 0)
    try Files.write(copy, bytes)
    try Database.rows(copy, "PRAGMA user_version = 99")
    #expect(bench("restore", copy).errors.contains("knows versions up to"))
    let nowhere = CommandBench()
    #expect(nowhere("restore", copy).code != 0)
    #expect(nowhere.files.isEmpty)
    #expect(bench("restore", "\(bench.folder)/none").code != 0)
    #expect(bench("restore", bench.path).errors.contains("cannot be the store itself"))
    #expect(bench("backup", bench.path).errors.contains("cannot be the store itself"))
    #expect(bench("backup", "/proc/none/copy").code != 0)
    #expect(CommandBench()("backup", copy).code != 0)
    #expect(bench("history").output == before)
    #expect(!bench.files.contains { $0.contains("replaced") || $0.contains(".new-") })
  }
}
