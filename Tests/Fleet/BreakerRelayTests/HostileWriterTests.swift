import BreakerRelay
@_spi(Relay) import SharedBreaker
import TestSupport
import Testing

/// Five hundred hosts that read, judge and tell by the code of relays, and a writer to their server that
/// cuts, forges, replays and withholds at random for a minute.
struct HostileWriterTests {
  private typealias Place = FleetState.CommandPlace

  private struct Host {
    var name: String
    var known: [Place: FleetCommand] = [:]
    var heard = HeardCommands()
    var nextLook: Int64

    mutating func take(_ command: FleetCommand, at place: Place) {
      if let old = known[place], !command.isLater(than: old) { return }
      known[place] = command
      heard.take(command)
    }
  }

  private struct Server {
    var commands: [Place: String] = [:]
    var marks: [String: String] = [:]

    /// All that has ever been there, for the writer.
    var earlier: [(place: Place, text: String)] = []
    var earlierMarks: [(host: String, text: String)] = []
  }

  private let authority: FleetAuthority
  private let order: CommandKey
  private static let hosts = 500
  private static let lookInterval: Int64 = 60_000

  init() throws {
    let key = try #require(FleetKey(hexadecimal: String(repeating: "11", count: 32)))
    order = try #require(CommandKey(hexadecimal: String(repeating: "44", count: 32)))
    authority = FleetAuthority(
      fleet: "test", keys: [key], obeyedKeys: [order.name], commandKey: order)
  }

  private func bytes(_ text: String) -> RedisReply { .bytes(Array(text.utf8)) }

  private func state(of server: Server, for host: Host, at now: Int64) throws -> FleetState {
    var state = try FleetState(
      [
        .array([bytes(String(now / 1_000)), bytes(String(now % 1_000 * 1_000))]), .nothing,
        .nothing, .array([]),
      ], knowing: Array(host.known.values), believing: authority)
    state.take(
      commands: server.commands.map { (bytes("\($0.name)\n\($0.aspect)"), bytes($1)) })
    return state
  }

  private func look(_ host: inout Host, at server: inout Server, _ now: Int64) throws {
    let state = try state(of: server, for: host, at: now)
    for command in state.unheard {
      for (aspect, part) in command.byAspect {
        host.take(part, at: Place(name: command.name, aspect: aspect))
      }
    }
    for command in state.lost(from: host.name) { tell(command, to: &server, at: now) }
  }

  private func tell(_ command: FleetCommand, to server: inout Server, at now: Int64) {
    for (aspect, part) in command.byAspect {
      let place = Place(name: command.name, aspect: aspect)
      let text = KeptCommand.text(of: part, about: aspect, at: now)
      server.commands[place] = text
      server.earlier.append((place, text))
    }
  }

  private func mark(_ host: inout Host, at now: Int64) -> String {
    var mark = HostMark(lineage: "1", run: "1", sentAt: now)
    mark.heard = host.heard.told()
    return authority.sealed(mark.text, .host, [host.name])
  }

  /// Does one evil thing.
  private func act(on server: inout Server, _ random: inout SeededRandom, at now: Int64) {
    guard let (place, text) = server.earlier.isEmpty ? nil : random.pick(server.earlier) else {
      return
    }
    switch random.number(0...6) {
    case 0: server.commands[place] = nil
    case 1:
      // The operator's signature.
      let parts = text.split(separator: ":\(order.name.short):", maxSplits: 1)
      if parts.count == 2 {
        let rest = String(parts[1]).dropFirst(128)
        server.commands[place] = String(parts[0]) + rest
      }
    case 2:
      server.commands[place] =
        "\(now + 80_000_000) ops \(now) " + #"{"action":"force","mode":"forced_open","by":"x"}"#
    case 3: server.commands[place] = text
    case 4:
      if let other = server.earlier.randomElement(using: &random) {
        server.commands[place] = other.text
      }
    case 5:
      if !server.earlierMarks.isEmpty {
        let (host, text) = random.pick(server.earlierMarks)
        server.marks[host] = text
      }
    default:
      let host = "h\(random.number(0...Self.hosts - 1))"
      server.marks[host] = random.pick(["", "{}", server.marks["h0"] ?? ""])
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `no host seems to have done or refused anything, and all follow two minutes afterwards`()
    throws
  {
    var random = SeededRandom(seed: 7)
    var server = Server()
    var hosts = (0..<Self.hosts).map { number in
      Host(name: "h\(number)", nextLook: Int64(random.number(0...Int(Self.lookInterval))))
    }
    let begin: Int64 = 1_800_000_000_000
    var given: [(place: Place, command: FleetCommand)] = []
    var confirmations = 0
    for second in 0..<180 {
      let now = begin + Int64(second) * 1_000
      let isHostile = second < 60
      if second < 60, second % 2 == 0 {
        let place = Place(name: "b\(second % 20)", aspect: "mode")
        let command = authority.signed(
          FleetCommand(
            name: place.name, action: .force(second % 4 == 0 ? .observe : .automatic, for: nil),
            author: "x", host: "h0", stamp: now, age: .zero), at: now)
        hosts[0].take(command, at: place)
        tell(command, to: &server, at: now)
        given.append((place, command))
        // The stream, of which the writer takes away what it likes.
        let share = isHostile ? random.number(0...100) : 100
        for index in hosts.indices.dropFirst() where random.number(0...99) < share {
          hosts[index].take(command, at: place)
        }
      }
      if isHostile { for _ in 0..<10 { act(on: &server, &random, at: now) } }
      for index in hosts.indices {
        if second % 3 == index % 3 {
          let text = mark(&hosts[index], at: now)
          server.marks[hosts[index].name] = text
          if random.number(0...99) == 0 { server.earlierMarks.append((hosts[index].name, text)) }
        }
        guard Int64(second) * 1_000 >= hosts[index].nextLook else { continue }
        try look(&hosts[index], at: &server, now)
        hosts[index].nextLook += Int64(
          random.number(Int(Self.lookInterval / 2)...Int(Self.lookInterval)))
      }
      guard second % 5 == 4 else { continue }
      for host in hosts.dropFirst() {
        let mark = server.marks[host.name].flatMap {
          try? HostMark($0, of: host.name, believing: authority)
        }
        guard let mark else { continue }
        #expect(mark.refused.isEmpty)
        for (place, command) in given where mark.heard.has(command, knowing: hosts[0].heard) {
          confirmations += 1
          let isThere = host.known[place].map { !command.isLater(than: $0) } ?? false
          #expect(isThere, "\(host.name) has not carried out \(place.name) at \(second) s")
        }
      }
    }
    #expect(confirmations > 10_000)
    for (place, command) in hosts[0].known {
      #expect(hosts.allSatisfy { $0.known[place]?.stamp == command.stamp }, "\(place.name)")
    }
  }
}
