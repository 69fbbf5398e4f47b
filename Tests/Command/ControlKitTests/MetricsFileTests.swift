import Glibc
import SharedBreaker
import TestSupport
import Testing

@testable import ControlKit

/// The file that `metrics --output` writes.
@Suite struct MetricsFileTests {
  private let bench = CommandBench()
  private let directory: TemporaryDirectory

  init() throws {
    directory = try TemporaryDirectory()
    _ = bench("policy", "pay", "--set", "open-for=1m")
  }

  private func output(_ path: String, _ words: String...) -> Answer {
    bench.run(["metrics", "--output", path] + words)
  }

  private func text(_ path: String) throws -> String {
    String(decoding: try Files.read(path), as: UTF8.self)
  }

  private func names() throws -> String {
    try Child.run("/bin/ls", ["-A", directory.path]).replacing("\n", with: " ")
  }

  @Test func `a metrics file has everything that would be printed, and nothing is printed`() throws
  {
    let path = directory.file("breakers.prom")
    #expect(output(path) == Answer(code: 0, output: "", errors: ""))
    #expect(try text(path) == bench("metrics").output)
    #expect(output(path, "--json").code == 0)
    #expect(try text(path) == bench("metrics", "--json").output)
    #expect(try names() == "breakers.prom ")
  }

  @Test(.timeLimit(.minutes(60)), arguments: [0o000, 0o022, 0o777] as [UInt32])
  func `a metrics file has mode 644 whatever the umask, or the mode that is given`(mask: UInt32)
    async
  {
    await #expect(processExitsWith: .success) { [mask] in
      let file = try MetricsFileTests()
      let path = file.directory.file("breakers.prom")
      umask(mask)
      precondition(file.output(path).code == 0)
      let usual = try Files.permissions(of: path).mode
      precondition(usual == 0o644)
      precondition(file.output(path, "--mode", "640").code == 0)
      let asked = try Files.permissions(of: path).mode
      precondition(asked == 0o640)
      umask(0o022)
    }
  }

  @Test func `a metrics file says that the store is down and keeps no old values`() throws {
    let path = directory.file("breakers.prom")
    #expect(output(path).code == 0)
    let answer = bench.run(["--store", "/dev/null", "metrics", "--output", path])
    #expect(answer.code == 69)
    #expect(answer.errors.split(separator: "\n").count == 1)
    #expect(try text(path).contains("\nshared_breaker_store_up 0\n"))
    #expect(try !text(path).contains("pay"))
  }

  @Test(arguments: ["file", "nowhere", "/dev/null", "directory"])
  func `a metrics file is never written through a symbolic link, which stays`(target: String) throws
  {
    try Files.write(directory.file("file"), Array("precious".utf8))
    try Files.makeDirectory(directory.file("directory"))
    let link = directory.file("link.prom")
    try Files.link(link, to: target.hasPrefix("/") ? target : directory.file(target))
    let before = try names()
    let answer = output(link)
    #expect(answer.code == 1)
    #expect(answer.output.isEmpty)
    #expect(answer.errors.contains("link.prom cannot be replaced: it is a symbolic link: "))
    #expect(try names() == before)
    #expect(try text(directory.file("file")) == "precious")
    #expect(try !Files.permissions(of: link).isRegular)
  }

  @Test(arguments: [
    ("directory", "it is not a regular file"), ("directory/", "it is not a regular file"),
    ("fifo", "it is not a regular file"), ("/dev/null", "it is not a regular file"),
    ("/dev/stdout", "it is a symbolic link"), ("missing/file", "No such file or directory"),
    ("file/file", "Not a directory"), ("missing/", "No such file or directory"),
  ])
  func `a path that cannot be a metrics file is refused, and nothing changes`(
    name: String, why: String
  ) throws {
    try Files.makeDirectory(directory.file("directory"))
    try Files.makeFIFO(directory.file("fifo"))
    try Files.write(directory.file("file"), [])
    let before = try names()
    let isElsewhere = name.isEmpty || name.hasPrefix("/")
    let answer = output(isElsewhere ? name : directory.file(name))
    #expect(answer.code == 1)
    #expect(answer.output.isEmpty)
    #expect(answer.errors.contains(why), "\(answer.errors)")
    #expect(answer.errors.split(separator: "\n").count == 1)
    #expect(try names() == before)
  }

  @Test func `a metrics file may have any name in any directory`() throws {
    // Each path has a character that to Swift contains the slash.
    for name in ["u\u{600}", "\u{301}"] {
      try Files.makeDirectory(directory.file(name))
      for file in ["m.prom", "\u{301}.prom"] {
        let path = "\(directory.path)/\(name)/\(file)"
        #expect(output(path) == Answer(code: 0, output: "", errors: ""))
        #expect(try text(path).contains("pay"))
      }
    }
  }

  @Test func `a metrics file is written even if its temporary name is a directory`() throws {
    let path = directory.file("breakers.prom")
    try Files.makeDirectory(directory.file(".breakers.prom.new"))
    #expect(output(path) == Answer(code: 0, output: "", errors: ""))
    #expect(try names() == ".breakers.prom.new breakers.prom ")
    #expect(try text(path).contains("pay"))
  }

  @Test func `a metrics file is written over what a killed process has left`() throws {
    let path = directory.file("breakers.prom")
    try Files.write(directory.file(".breakers.prom.new"), Array("left".utf8))
    #expect(output(path).code == 0)
    #expect(try names() == "breakers.prom ")
    #expect(try text(path).contains("pay"))
  }

  @Test(.timeLimit(.minutes(60)))
  func `a metrics file is whole whenever it is read while others replace it`() throws {
    let path = directory.file("breakers.prom")
    #expect(output(path).code == 0)
    let whole = try text(path).count
    let threads = Threads()
    let count = rounds(2_000)
    for _ in 0..<3 {
      threads.start {
        for _ in 0..<count where output(path).code != 0 { Issue.record("it cannot be replaced") }
      }
    }
    for _ in 0..<count { #expect(try text(path).count == whole) }
    threads.join()
    #expect(try names() == "breakers.prom ")
  }

  @Test(.enabled(if: SmallDisk.isPermitted, "needs root, to mount a tmpfs"))
  func `a metrics file stays as it was when the disk is full`() throws {
    let disk = try SmallDisk(at: directory.file("disk"), kilobytes: 64)
    let path = directory.file("disk/breakers.prom")
    #expect(output(path).code == 0)
    let before = try text(path)
    bench.advance(by: 1_000)
    try disk.fill()
    let answer = output(path)
    #expect(answer.code == 1)
    #expect(answer.errors.contains("No space left on device"))
    #expect(try text(path) == before)
    #expect(try Child.run("/bin/ls", ["-A", directory.file("disk")]) == "breakers.prom\nfilling\n")
  }
}
