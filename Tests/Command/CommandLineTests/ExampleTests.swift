import Glibc
import TestSupport
import Testing

/// The example programs.
@Suite struct ExampleTests {
  /// Runs a program without arguments, and answers its exit code and the lines that it prints.
  private func run(_ program: String) throws -> (code: Int32, lines: [Substring]) {
    guard let pipe = unsafe popen("'\(BuiltProducts.path(of: program))' </dev/null", "r") else {
      throw SupportError("popen", errno)
    }
    var output: [UInt8] = []
    while case let byte = unsafe fgetc(pipe), byte != EOF { output.append(UInt8(byte)) }
    let status = unsafe pclose(pipe)
    let code = status & 0x7F == 0 ? (status >> 8) & 0xFF : 128 + status & 0x7F
    return (code, String(decoding: output, as: UTF8.self).split(separator: "\n"))
  }

  @Test(.timeLimit(.minutes(60)))
  func `the worker pool example shares one breaker`() throws {
    let (code, lines) = try run("worker-pool")
    #expect(code == 0, "\(lines)")
    #expect(lines.count { $0.hasPrefix("  worker ") && $0.hasSuffix("then a success") } == 4)
    #expect(lines.contains { $0.hasPrefix("  closed -> open: 3 consecutive failures (pid ") })
    #expect(lines.contains { $0.hasPrefix("  half_open -> closed: ") })
    #expect(lines.last == "4 workers ended well, and the breaker is closed.")
  }

  @Test(.timeLimit(.minutes(60)))
  func `the prefork example replaces a worker that is killed while it probes`() throws {
    let (code, lines) = try run("prefork")
    #expect(code == 0, "\(lines)")
    #expect(lines.contains { $0.hasSuffix("was killed by signal 9. Another one takes its place,") })
    #expect(lines.contains { $0.hasPrefix("  closed -> open: 3 consecutive failures (pid ") })
    #expect(lines.contains { $0.contains(" probe -> lost: ") }, "\(lines)")
    #expect(lines.contains { $0.hasPrefix("  half_open -> closed: ") })
    #expect(lines.last == "4 workers ended well, and the breaker is closed.")
  }

  @Test func `the guide to prefork servers shows the code that the example runs`() throws {
    let root = "/" + #filePath.split(separator: "/").dropLast(4).joined(separator: "/")
    func text(_ path: String) throws -> String {
      String(decoding: try Files.read("\(root)/Sources/\(path)"), as: UTF8.self)
    }
    let guide = try text("Breaker/SharedBreaker/SharedBreaker.docc/PreforkFromSwift.md")
    for file in ["include/prefork.h", "prefork.c"] {
      #expect(guide.contains("```c\n\(try text("Examples/CPrefork/\(file)"))```\n"), "\(file)")
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `the queue consumer example says why a job was not done`() throws {
    let (code, lines) = try run("queue-consumer")
    #expect(code == 0, "\(lines)")
    for job in 1...5 { #expect(lines.contains("job \(job): delivered")) }
    #expect(lines.contains("a job without a name: dead letter: it is malformed"))
    #expect(
      lines.contains { $0.hasPrefix("job 3: back to the queue for ") && $0.contains("ServiceDown") }
    )
    #expect(lines.contains("5 delivered, 1 dead letter,"))
    #expect(lines.last == "and the breaker, which has opened 3 times, is closed.")
  }

  @Test(.timeLimit(.minutes(60)))
  func `the URL fetch example leaves a server alone for as long as it asks`() throws {
    let (code, lines) = try run("url-fetch")
    #expect(code == 0, "\(lines)")
    let answers = lines.filter { $0.hasPrefix("the server answers ") }
    let course = ["200 closed", "500 closed", "429 held", "503 open", "200 closed"]
    #expect(
      answers.map { $0.split(separator: " ") }.map { "\($0[3].dropLast()) \($0[7])" } == course)
    #expect(lines.last?.hasPrefix("5 of ") == true)
  }
}
