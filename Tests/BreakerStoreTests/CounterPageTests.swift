import TestSupport
import Testing

@testable import BreakerStore

@Suite struct `The page of counters` {
  @Test func `of another store is not used in the place of one that cannot be had`() throws {
    let directory = try TemporaryDirectory()
    let page = CounterPage()
    func place(_ name: String, store: Int64) -> CounterFile.Place {
      .init(storePath: directory.file(name), store: store, boot: 1)
    }
    try Files.write(directory.file("first"), [])
    page.use(place("first", store: 1))
    let first = try #require(page.counters(ofBreaker: 7))
    page.use(place("not there", store: 2))
    #expect(page.counters(ofBreaker: 7) == nil)
    page.use(place("first", store: 1))
    let again = try #require(page.counters(ofBreaker: 7))
    again.key = 5
    // An address that was given out stays good.
    #expect(first.key == 5)
  }
}

/// Going on in another file.
extension `The page of counters` {
  private func place(_ directory: TemporaryDirectory) throws -> CounterFile.Place {
    try Files.write(directory.file("store"), [])
    return .init(storePath: directory.file("store"), store: 1, boot: 1)
  }

  private func counted(_ successes: Int64) -> Counted {
    var counted = Counted()
    counted.successes = successes
    return counted
  }

  @Test func `takes along what was counted, of every segment`() throws {
    let directory = try TemporaryDirectory()
    let place = try place(directory)
    let page = CounterPage()
    page.use(place)
    for id: Int64 in [7, 5_000] {
      let counters = try #require(page.counters(ofBreaker: id))
      counters.key = id
      counters.add(counted(id * 10))
    }
    Files.removeAll(place.path)
    page.use(place)
    for id: Int64 in [7, 5_000] {
      let counters = try #require(page.counters(ofBreaker: id))
      #expect(counters.key == id)
      #expect(counters.successes == id * 10)
    }
  }

  @Test func `leaves alone what somebody counts there by now`() throws {
    let directory = try TemporaryDirectory()
    let place = try place(directory)
    let pages = [CounterPage(), CounterPage(), CounterPage()]
    for page in pages[..<2] { page.use(place) }
    for id: Int64 in [7, 8] {
      let counters = try #require(pages[0].counters(ofBreaker: id))
      counters.key = 5
      counters.add(counted(10))
      _ = try #require(pages[1].counters(ofBreaker: id))
    }
    Files.removeAll(place.path)
    pages[2].use(place)
    let others = try #require(pages[2].counters(ofBreaker: 7))
    others.key = 6
    for page in pages[..<2] {
      page.use(place)
      // The second to come finds what the first one has brought, and counted since.
      try #require(page.counters(ofBreaker: 8)).add(counted(1))
    }
    #expect(others.key == 6)
    #expect(others.successes == 0)
    #expect(try #require(pages[2].counters(ofBreaker: 8)).successes == 12)
  }
}
