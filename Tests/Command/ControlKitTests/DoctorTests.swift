import SharedBreaker
import TestSupport
import Testing

/// Findings of `doctor`, and their output.
@Suite struct DoctorTests {
  @Test func `the doctor finds nothing wrong with a healthy store`() throws {
    let clinic = try Clinic()
    let answer = clinic.doctor()
    #expect(answer.code == 0, "\(answer)")
    #expect(answer.errors.isEmpty)
    for line in answer.output.split(separator: "\n") {
      #expect(line.hasPrefix("ok ") || line.hasPrefix("note  sqlite"), "\(line)")
    }
    #expect(clinic.doctor("--quiet") == Answer(code: 0, output: "", errors: ""))
  }

  @Test func `the doctor ends with 69 if there is no store`() throws {
    let directory = try TemporaryDirectory()
    let answer = Answer.of("--store", directory.store, "doctor", "--repair")
    #expect(answer.code == 69)
    #expect(
      answer.errors == "cbctl: no store yet at \(directory.store): its first use creates it\n")
    #expect(!Files.exists(directory.file("state")))
  }

  @Test(arguments: [
    "as it is", "folded", "without index", "without log", "damaged", "in use", "no log",
    "copied",
  ])
  func `the doctor changes nothing unless it is told to repair`(state: String) throws {
    let clinic = try Clinic()
    var users: [Holder] = []
    switch state {
    case "folded": try clinic.fold()
    case "without index": Files.removeAll(clinic.store + "-shm")
    case "without log": Files.removeAll(clinic.store + "-wal")
    case "damaged":
      try clinic.fold()
      try clinic.damage(at: 2_048, count: 20_000)
    case "no log": try clinic.sql("PRAGMA journal_mode=DELETE")
    case "copied": try clinic.putCopyInPlace()
    case "in use": users.append(try Holder(clinic.store, "BEGIN; SELECT * FROM store"))
    default: break
    }
    let before = try clinic.everything()
    for options in [[], ["--json"]] {
      _ = clinic.cbctl(["doctor"] + options)
      #expect(try clinic.everything() == before)
    }
    withExtendedLifetime(users) {}
  }

  @Test func `the doctor prints a JSON document with each check`() throws {
    let clinic = try Clinic()
    try Files.changeMode(clinic.store + "-wal", to: 0o644)
    let answer = clinic.doctor("--json")
    #expect(answer.code == 1)
    #expect(
      answer.output.hasPrefix(#"{"store":"\#(clinic.store)","well":false,"checks":[{"check""#))
    let files = #"{"check":"files","result":"warning","found":"-wal has mode 644, user "#
    #expect(answer.output.contains(files))
    #expect(answer.output.contains(#""repair":"give -wal the rights of the store"}"#))
  }
}
