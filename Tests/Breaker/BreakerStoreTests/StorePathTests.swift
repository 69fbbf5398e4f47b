import BreakerStore
import SharedBreaker
import TestSupport
import Testing

/// The usual path of a store, which applies when no path is named.
@Suite struct StorePathTests {
  private func path(
    _ environment: [String: String], isRoot: Bool = false, home: String? = "/home/of-system"
  ) throws -> String {
    try StorePath.usual(environment: { environment[$0] }, isRoot: isRoot, home: { home })
  }

  @Test func `SHARED_BREAKER_STORE decides the usual path before anything else`() throws {
    let environment = ["SHARED_BREAKER_STORE": "/a/b.db", "XDG_STATE_HOME": "/x", "HOME": "/h"]
    #expect(try path(environment) == "/a/b.db")
    #expect(try path(environment, isRoot: true) == "/a/b.db")
  }

  @Test func `the usual path for root is the system's`() throws {
    let usual = "/var/lib/shared-breaker/breakers.db"
    #expect(try path([:], isRoot: true) == usual)
    #expect(try path(["SHARED_BREAKER_STORE": "", "HOME": "/root"], isRoot: true) == usual)
  }

  @Test func `the usual path is below the state home, or else below the home`() throws {
    #expect(try path(["XDG_STATE_HOME": "/x", "HOME": "/h"]) == "/x/shared-breaker/breakers.db")
    #expect(try path(["HOME": "/h"]) == "/h/.local/state/shared-breaker/breakers.db")
    // Relative paths would lead to another place in each working directory.
    #expect(
      try path(["XDG_STATE_HOME": "x", "HOME": "h"])
        == "/home/of-system/.local/state/shared-breaker/breakers.db")
  }

  @Test
  func `a variable that is not text is refused, but only if the usual path would use it`() throws {
    func path(_ named: String?, isRoot: Bool = false) throws -> String {
      try StorePath.usual(
        environment: { name throws(StoreError) in
          if name == "SHARED_BREAKER_STORE" { return named }
          throw StoreError(.other, "\(name) is no text")
        }, isRoot: isRoot, home: { "/home/of-system" })
    }
    #expect(throws: StoreError.self) { try path(nil) }
    #expect(try path("/a/b.db") == "/a/b.db")
    #expect(try path(nil, isRoot: true) == "/var/lib/shared-breaker/breakers.db")
  }

  @Test func `the usual path is never where every user may write`() throws {
    #expect(try path([:]) == "/home/of-system/.local/state/shared-breaker/breakers.db")
    #expect(try path([:], home: nil) == "/var/lib/shared-breaker/breakers.db")
  }
}

/// The path of a store that a program names.
@Suite struct NamedStorePathTests {
  @Test func `a path is split at its slashes, whatever characters are beside them`() throws {
    // To Swift, such a mark and the slash beside it are one character.
    for folder in ["u\u{600}", "\u{301}v"] {
      let directory = try TemporaryDirectory()
      let path = "\(directory.path)/\(folder)/\u{301}.db"
      let store = SharedStore(path: path)
      try store.connect()
      #expect(store.path == path)
      store.close()
      #expect(Files.exists(path))
    }
  }
}
