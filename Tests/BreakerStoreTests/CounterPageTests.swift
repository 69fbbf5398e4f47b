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
