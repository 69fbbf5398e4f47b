import BreakerRelay
import Testing

/// The addresses that `--redis` takes.
struct RedisAddressTests {
  private static func members(_ all: (String, UInt16)...) -> [Sentinels.Member] {
    all.map { Sentinels.Member(host: $0.0, port: $0.1) }
  }

  @Test(arguments: [
    ("redis://h", RedisAddress(.tcp(host: "h", port: 6_379))),
    ("redis://h:7000", RedisAddress(.tcp(host: "h", port: 7_000))),
    ("redis://h/3", RedisAddress(.tcp(host: "h", port: 6_379), database: 3)),
    ("redis://h:1/", RedisAddress(.tcp(host: "h", port: 1))),
    ("redis://[::1]:7000/2", RedisAddress(.tcp(host: "::1", port: 7_000), database: 2)),
    ("redis://[fe80::1]", RedisAddress(.tcp(host: "fe80::1", port: 6_379))),
    ("redis://:pw@h", RedisAddress(.tcp(host: "h", port: 6_379), password: "pw")),
    ("redis://u@h", RedisAddress(.tcp(host: "h", port: 6_379), user: "u")),
    (
      "redis://u:p%40%3a%25@h:1",
      RedisAddress(.tcp(host: "h", port: 1), user: "u", password: "p@:%")
    ),
    ("redis://u:a:b@h", RedisAddress(.tcp(host: "h", port: 6_379), user: "u", password: "a:b")),
    ("rediss://h", RedisAddress(.tcp(host: "h", port: 6_379), tls: RedisTLS())),
    (
      "rediss://u:p@h:1/2",
      RedisAddress(
        .tcp(host: "h", port: 1), tls: RedisTLS(), user: "u", password: "p", database: 2)
    ),
    (
      "sentinel://a,b:1,[::1]:2/main",
      RedisAddress(
        .sentinels(Sentinels(members(("a", 26_379), ("b", 1), ("::1", 2)), name: "main")))
    ),
    (
      "sentinels://u:p@a/m/3",
      RedisAddress(
        .sentinels(Sentinels(members(("a", 26_379)), name: "m")), tls: RedisTLS(), user: "u",
        password: "p", database: 3)
    ),
    ("unix:///run/redis.sock", RedisAddress(.socket(path: "/run/redis.sock"))),
    ("unix:///a@b/c%20d?db=15", RedisAddress(.socket(path: "/a@b/c d"), database: 15)),
    (
      "unix://u:p@/run/r.sock",
      RedisAddress(.socket(path: "/run/r.sock"), user: "u", password: "p")
    ),
  ])
  func `an address is read`(text: String, address: RedisAddress) throws {
    #expect(try RedisAddress(text) == address)
  }

  @Test(arguments: [
    "", "redis", "redis:", "redis:h", "redis://", "redis://:1", "redis://h:0", "redis://h:65536",
    "redis://h:x", "redis://h/x", "redis://h/-1", "redis://h y", "redis://[::1", "redis://[::1]x",
    "redis://h\u{1b}", "http://h", "redis://a,b:1", "sentinel://", "sentinel://a", "sentinel://a/",
    "sentinel:///main", "sentinel://a,/main", "sentinel://,a/main", "sentinel://a:0/main",
    "sentinel://a,b:x/main", "sentinel://a/main/x", "sentinel://a b/main", "sentinel://a/m m",
    "unix://", "unix://relative", "unix:///s?x=1", "unix:///s?db=x",
    "unix:///s%0", "unix:///s%zz", "unix:///s%00", "unix:///%ff",
    "unix:///" + String(repeating: "s", count: 107),
  ])
  func `a text that is not an address is refused`(text: String) {
    #expect(throws: UsageError.self) { try RedisAddress(text) }
  }

  @Test func `the password of an address is never shown`() throws {
    #expect(try RedisAddress("redis://u:secret@h:1/2").description == "redis://u@h:1/2")
    #expect(try RedisAddress("redis://:secret@[::1]").description == "redis://[::1]:6379")
    #expect(try RedisAddress("rediss://u:secret@h:1").description == "rediss://u@h:1")
    #expect(
      try RedisAddress("sentinel://u:secret@a,[::1]:1/main/2").description
        == "sentinel://u@a:26379,[::1]:1/main/2")
    #expect(try RedisAddress("sentinels://a/m").description == "sentinels://a:26379/m")
    #expect(try RedisAddress("unix://u:secret@/s?db=1").description == "unix://u@/s?db=1")
    for text in [
      "redis://u:secret@", "redis://u:secret%@h", "x://secret", "unix://:secret@s",
      "redis://h:secret", "redis://h/secret", "sentinel://:secret@a", "sentinel://a:secret/m",
      "unix:///s?secret", "unix:///s?db=secret",
    ] {
      let error = #expect(throws: UsageError.self) { try RedisAddress(text) }
      #expect(error?.description.contains("secret") == false)
    }
  }

  @Test(arguments: [
    "redis://u:se/cret@h", "redis://:1/secret@h:1", "redis://u:se@cret/x@h", "redis://u:1:2/cret@h",
    "unix://u:se/cret@/s", "unix://u:se@/cret@/s", "unix://:se@/x?cret@/s",
    "unix://:se@/x?db=cret@/s",
  ])
  func `a password that is not encoded is refused with what to do, and not shown`(text: String) {
    let error = #expect(throws: UsageError.self) { try RedisAddress(text) }
    #expect(error?.description.contains("write %2F for /") == true)
    #expect(error?.description.contains("cret") == false)
  }
}
