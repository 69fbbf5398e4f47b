import BreakerStore
import SharedBreaker
import TestSupport
import Testing

@Suite struct `The path of a store that nobody named` {
  private func path(
    _ environment: [String: String], isRoot: Bool = false, home: String? = "/home/of-system"
  ) throws -> String {
    try StorePath.usual(environment: { environment[$0] }, isRoot: isRoot, home: { home })
  }

  @Test func `is what the environment says, before all else`() throws {
    let environment = ["SHARED_BREAKER_STORE": "/a/b.db", "XDG_STATE_HOME": "/x", "HOME": "/h"]
    #expect(try path(environment) == "/a/b.db")
    #expect(try path(environment, isRoot: true) == "/a/b.db")
  }

  @Test func `is the system's for root`() throws {
    let usual = "/var/lib/shared-breaker/breakers.db"
    #expect(try path([:], isRoot: true) == usual)
    #expect(try path(["SHARED_BREAKER_STORE": "", "HOME": "/root"], isRoot: true) == usual)
  }

  @Test func `is below the state home, or the home`() throws {
    #expect(try path(["XDG_STATE_HOME": "/x", "HOME": "/h"]) == "/x/shared-breaker/breakers.db")
    #expect(try path(["HOME": "/h"]) == "/h/.local/state/shared-breaker/breakers.db")
    // Relative ones would be another place in each working directory.
    #expect(
      try path(["XDG_STATE_HOME": "x", "HOME": "h"])
        == "/home/of-system/.local/state/shared-breaker/breakers.db")
  }

  @Test func `is refused if it is no text, but only if it would be used`() throws {
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

  @Test func `is never where everybody may write`() throws {
    #expect(try path([:]) == "/home/of-system/.local/state/shared-breaker/breakers.db")
    #expect(try path([:], home: nil) == "/var/lib/shared-breaker/breakers.db")
  }
}

@Suite struct `A path that somebody named` {
  @Test func `is taken apart at its slashes, whatever is beside them`() throws {
    // To Swift a mark and the slash beside it are one character.
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

@Suite struct `A network file system` {
  @Test(
    arguments: [
      (0x6969, "NFS"), (0xFF53_4D42, "CIFS"), (0xFE53_4D42, "SMB2"), (0x0102_1997, "9P"),
      (0x00C3_6400, "Ceph"),
    ] as [(UInt64, String)])
  func `is known by its number`(type: UInt64, name: String) {
    #expect(FileSystem.networkName(type: type, device: "0:1", mounts: { "" }) == name)
  }

  @Test(arguments: [0xEF53, 0x0102_1994, 0x9123_683E, 0x5846_5342, 0x794C_7630] as [UInt64])
  func `is not a local one`(type: UInt64) {
    #expect(FileSystem.networkName(type: type, device: "0:1", mounts: { "" }) == nil)
  }

  @Test func `in user space is known by the mount table`() {
    let mounts = """
      36 35 0:52 / /mnt/remote rw,relatime shared:1 - fuse.sshfs host:/ rw,user_id=0
      37 35 0:53 / /mnt/local rw,relatime - fuse.bindfs /home rw
      38 35 0:54 / /mnt/shared rw master:7 - virtiofs tag rw
      """
    func name(_ device: String) -> String? {
      FileSystem.networkName(type: 0x6573_5546, device: device, mounts: { mounts })
    }
    #expect(name("0:52") == "fuse.sshfs")
    #expect(name("0:53") == nil)
    #expect(name("0:54") == "virtiofs")
    #expect(name("0:99") == nil)
  }
}
