import Glibc
import TestSupport
import Testing

@testable import BreakerStore

/// The counters that a process has mapped.
@Suite struct CounterPageTests {
  @Test func `the counters of another store are never used in place of unavailable ones`() throws {
    let directory = try TemporaryDirectory()
    let page = CounterPage()
    func place(_ name: String, store: Int64) -> CounterFile.Place {
      .init(storePath: directory.file(name), store: store, boot: 1)
    }
    try Files.write(directory.file("first"), [])
    page.use(place("first", store: 1), atMost: .seconds(60))
    let first = try #require(page.counters(ofBreaker: 7))
    page.use(place("not there", store: 2), atMost: .seconds(60))
    #expect(page.counters(ofBreaker: 7) == nil)
    page.use(place("first", store: 1), atMost: .seconds(60))
    let again = try #require(page.counters(ofBreaker: 7))
    again.key = 5
    // An address that was given out stays valid.
    #expect(first.key == 5)
  }

  private func place(_ path: String, store: Int64 = 1, boot: Int64 = 1) -> CounterFile.Place {
    .init(storePath: path, store: store, boot: boot)
  }

  @Test func `a process waits for the counter file as long as it is told to`() throws {
    let directory = try TemporaryDirectory()
    let store = directory.file("store")
    try Files.write(store, [])
    let (patient, hasty) = (CounterPage(), CounterPage())
    let threads = Threads()
    try StoreLock.held(store, atMost: .seconds(60)) { _ in
      hasty.use(place(store), atMost: .zero)
      #expect(hasty.counters(ofBreaker: 7) == nil)
      threads.start { patient.use(place(store), atMost: .seconds(600)) }
      // Longer than a program waits by default.
      let end = Patience.deadline(after: .milliseconds(700))
      while Patience.monotonicNanoseconds() < end { sched_yield() }
    }
    threads.join()
    #expect(patient.counters(ofBreaker: 7) != nil)
  }

  @Test func `processes that disagree about the boot settle on one counter file`() throws {
    let directory = try TemporaryDirectory()
    let store = directory.store
    try Files.makeDirectory(directory.file("state"))
    try Files.write(store, [])
    let pages = (0..<3).map { _ in CounterPage() }
    var files: Set<FileIdentity?> = []
    for _ in 0..<50 {
      for (number, page) in pages.enumerated() {
        // As each process that opens a store does.
        page.use(place(store, boot: Int64(number)), atMost: .seconds(60))
        page.lookAfterFile()
        _ = page.counters(ofBreaker: 7)
        files.insert(StoreFile.identity(of: store + "-counters"))
      }
    }
    #expect(files.count <= pages.count)
    let all = try pages.map { try #require($0.counters(ofBreaker: 7)) }
    all[0].key = 5
    #expect(all.allSatisfy { $0.key == 5 })
  }

  @Test func `a process replaces a counter file that does not fit at most once a second`() throws {
    let directory = try TemporaryDirectory()
    let store = directory.file("store")
    try Files.write(store, [])
    let pages = [CounterPage(), CounterPage()]
    let start = Patience.monotonicNanoseconds()
    var replacements = 0
    var last = StoreFile.identity(of: store + "-counters")
    for _ in 0..<200 {
      for (number, page) in pages.enumerated() {
        page.use(place(store, store: Int64(number)), atMost: .seconds(60))
        _ = page.counters(ofBreaker: 7)
        let now = StoreFile.identity(of: store + "-counters")
        replacements += now == last ? 0 : 1
        last = now
      }
    }
    let seconds = Int((Patience.monotonicNanoseconds() - start) / 1_000_000_000) + 1
    #expect(replacements <= 1 + pages.count * seconds, "\(replacements) in \(seconds) s")
  }

  /// How many mappings of a file at a path this process has.
  private func mappings(of path: String) throws -> Int {
    String(decoding: try Files.read("/proc/self/maps"), as: UTF8.self)
      .split(separator: "\n").count { $0.contains(path) }
  }

  @Test func `few replaced counter files stay mapped, and every address stays valid`() throws {
    let directory = try TemporaryDirectory()
    let store = directory.file("store")
    try Files.write(store, [])
    let page = CounterPage()
    page.use(place(store), atMost: .seconds(60))
    var given: [Counters] = []
    for round in 0..<50 {
      let counters = try #require(page.counters(ofBreaker: 7))
      counters.add(.init(successes: Int64(round)))
      given.append(counters)
      Files.removeAll(store + "-counters")
      page.lookAfterFile()
    }
    #expect(try mappings(of: store) <= CounterPage.retiredFiles + 1)
    for (round, counters) in given.enumerated() {
      // The counters of a file that is no longer mapped begin at zero, and still work.
      let isMapped = round >= 50 - CounterPage.retiredFiles
      #expect(counters.successes == (isMapped ? Int64(round) : 0), "\(round)")
      counters.add(.init(successes: 3))
      #expect(counters.successes == (isMapped ? Int64(round) + 3 : 3), "\(round)")
    }
    #expect(page.counters(ofBreaker: 7)?.successes == 0)
  }
}

extension Counted {
  fileprivate init(successes: Int64) {
    self.init()
    self.successes = successes
  }
}
