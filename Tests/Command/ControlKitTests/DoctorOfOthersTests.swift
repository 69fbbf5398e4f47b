import SharedBreaker
import TestSupport
import Testing

/// The doctor changes nothing that does not belong to the store.
@Suite struct DoctorOfOthersTests {
  @Test func `the doctor leaves alone a directory in which others have files`() throws {
    let clinic = try Clinic()
    try Files.write(clinic.folder + "/neighbour", [1, 2, 3])
    try Files.changeMode(clinic.folder, to: 0o755)
    for suffix in ["", "-wal", "-shm", "-counters", "-lock"] {
      try Files.changeMode(clinic.store + suffix, to: 0o660)
    }
    let before = try Files.permissions(of: clinic.folder)
    for options in [[], ["--repair"]] {
      let answer = clinic.cbctl(["doctor"] + options)
      let line = clinic.line("directory", of: answer)
      #expect(line.word == "warn", "\(line.text)")
      #expect(
        line.text.contains("; repair: none, because others may use the directory: "), "\(line.text)"
      )
      #expect(try Files.permissions(of: clinic.folder) == before)
    }
  }

  @Test func `the doctor finds a directory that keeps the group from its store`() throws {
    let clinic = try Clinic()
    try Files.changeMode(clinic.folder, to: 0o2770)
    for suffix in ["", "-wal", "-shm", "-counters", "-lock"] {
      try Files.changeMode(clinic.store + suffix, to: 0o660)
    }
    let above = String(clinic.folder.dropLast("/state".count))
    func directory() -> (word: Substring, text: Substring) {
      clinic.line("directory", of: clinic.doctor())
    }
    for (mode, word) in [(0o700, "warn"), (0o701, "ok"), (0o710, "ok"), (0o711, "ok")] {
      try Files.changeMode(above, to: UInt32(mode))
      let line = directory()
      #expect(line.word == word, "\(String(mode, radix: 8)): \(line.text)")
      #expect(line.text.contains("\(above), mode 700, ") == (word == "warn"), "\(line.text)")
    }
    // A store of one user is not for a group.
    try Files.changeMode(above, to: 0o700)
    for suffix in ["", "-wal", "-shm", "-counters", "-lock"] {
      try Files.changeMode(clinic.store + suffix, to: 0o600)
    }
    try Files.changeMode(clinic.folder, to: 0o700)
    #expect(directory().word == "ok", "\(directory().text)")
  }

  @Test(arguments: ["text", "damaged database", "whole database with a log"])
  func `the doctor leaves alone a file that was never a store`(kind: String) throws {
    let clinic = try Clinic()
    Files.removeAll(clinic.folder)
    try Files.makeDirectory(clinic.folder, mode: 0o755)
    switch kind {
    case "text":
      try Files.write(clinic.store, Array(String(repeating: "root:x:0:0\n", count: 900).utf8))
    default:
      try Files.write(clinic.store, [])
      try clinic.sql("PRAGMA application_id = 77; CREATE TABLE precious (a)")
      if kind == "damaged database" {
        try clinic.damage(at: 100, count: 3_000)
      } else {
        try clinic.sql("PRAGMA journal_mode = WAL")
        try Files.write(clinic.store + "-wal", [])
      }
    }
    try Files.changeMode(clinic.store, to: 0o644)
    let before = try clinic.everything()
    for options in [[], ["--repair"]] {
      let answer = clinic.cbctl(["doctor"] + options)
      #expect(answer.code == 1, "\(answer)")
      #expect(!answer.output.contains("done: "), "\(answer)")
      if kind != "whole database with a log" {
        let line = clinic.line("integrity", of: answer)
        #expect(line.word == "BAD")
        #expect(line.text.contains("it is not a breaker store"), "\(line.text)")
      }
      #expect(try clinic.everything() == before)
    }
  }
}
