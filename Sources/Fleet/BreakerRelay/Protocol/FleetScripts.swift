/// The keys of a fleet on the server.
///
/// Their common tag, in braces, puts all of them on one node of a cluster.
package struct FleetKeys: Sendable, Hashable {
  private let prefix: String

  package init(fleet: String) { prefix = "sb:{\(fleet)}:" }

  /// The pattern of all of them, for the rights of a user of the server.
  package var pattern: String { prefix + "*" }

  /// The stream of recent messages.
  package var stream: String { prefix + "stream" }

  /// The number of the latest message.
  package var count: String { prefix + "count" }

  /// A random text, which is lost if the server loses its data.
  package var epoch: String { prefix + "epoch" }

  /// The latest command about each aspect of each breaker.
  package var commands: String { prefix + "commands" }

  /// Which breakers are open on which hosts.
  package var evidence: String { prefix + "evidence" }

  /// When each host was last seen, in milliseconds of the server's clock.
  package var hosts: String { prefix + "hosts" }

  /// The descriptions of a host, in an empty field, and of its breakers, by their names.
  package func host(_ name: String) -> String { prefix + "host:" + name }

  /// The field for the description of a host; no breaker has an empty name.
  package static let ownField = ""
}

/// The Lua scripts that change a fleet's keys, each all of its keys or none.
///
/// Times are always those of the server's clock. Numbers are compared as numbers but kept as text,
/// because Lua prints large ones inexactly. Names are compared by their bytes, because Lua's own
/// comparison depends on the server's language.
package enum FleetScripts {
  private static let now = """
    local t = redis.call('TIME')
    local now = t[1] * 1000 + math.floor(t[2] / 1000)

    """

  /// Appends a message to the stream, with the next number.
  ///
  /// The stream comes first, so that nothing changes if the server has no memory left. An entry with
  /// the last possible name leaves no room for others, so the stream begins again without it.
  private static let append = """
    local function append(limit, ...)
      local last = tonumber(redis.call('GET', KEYS[2])) or 0
      if not (last >= 0 and last < 9007199254740992) then last = 0 end
      local n = string.format('%.0f', math.floor(last) + 1)
      local added = redis.pcall('XADD', KEYS[1], 'MAXLEN', '~', limit, '*', 'v', '1', 'n', n, ...)
      if type(added) == 'table' and added.err then
        if string.find(added.err, 'exhausted') or string.find(added.err, 'equal or smaller') then
          redis.call('DEL', KEYS[1])
        end
        redis.call('XADD', KEYS[1], 'MAXLEN', '~', limit, '*', 'v', '1', 'n', n, ...)
      end
      redis.call('SET', KEYS[2], n)
      return n
    end

    """

  /// Shows that a host is alive, if its mark is still the one that its relay knows.
  ///
  /// It answers with the time, the epoch, the number of the latest message and how many hosts were
  /// seen recently; or, if something else stands in the place of the mark, with `other`, its digest, its
  /// beginning and the time. The relay judges it, because a script can check no signature.
  ///
  /// An epoch that no relay can have written counts as lost. A beat may have waited in a server that was
  /// stopped, so it is as old as its sending.
  ///
  /// - Keys: count, epoch, hosts, the host's own.
  /// - Arguments: the host, its mark, the SHA-1 digest of the mark that the relay knows, a new epoch, when
  ///   the beat was sent, how many milliseconds a host may be silent.
  package static let beat =
    now + """
      local own = redis.call('HGET', KEYS[4], '')
      local digest = own and redis.sha1hex(own) or ''
      if digest ~= ARGV[3] then
        return {'other', digest, string.sub(own or '', 1, 16385), string.format('%.0f', now)}
      end
      local epoch = redis.call('GET', KEYS[2])
      if not epoch or #epoch > 64 or not string.find(epoch, '^%w+$') then
        redis.call('SET', KEYS[2], ARGV[4])
      end
      local before = tonumber(redis.call('ZSCORE', KEYS[3], ARGV[1]) or '0')
      local seen = math.min(now, tonumber(ARGV[5]))
      if before > seen and before <= now then seen = before end
      if now - seen > 86400000 then seen = now end
      redis.call('ZADD', KEYS[3], string.format('%.0f', seen), ARGV[1])
      redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', string.format('(%.0f', now - 86400000))
      if own ~= ARGV[2] then redis.call('HSET', KEYS[4], '', ARGV[2]) end
      redis.call('EXPIRE', KEYS[4], 86400)
      local first = string.format('%.0f', now - tonumber(ARGV[6]))
      return {string.format('%.0f', now), redis.call('GET', KEYS[2]),
        redis.call('GET', KEYS[1]) or '0', redis.call('ZCOUNT', KEYS[3], first, '+inf')}
      """

  /// Publishes that a breaker has opened, is no longer open, or is held, and records it as evidence.
  ///
  /// - Keys: stream, count, evidence.
  /// - Arguments: about how long the stream may become, the kind of message, host, lineage, breaker,
  ///   generation, for how many milliseconds it stays open or held; when it was sent and the seal, both empty if it
  ///   is not signed; and of a hold, how old it is, the stamp of the end that it came after, and why.
  static let evidence =
    now + append + """
      local place = ARGV[5] .. '\\n' .. ARGV[3]
      local fields = {'k', ARGV[2], 'h', ARGV[3], 'l', ARGV[4], 'b', ARGV[5], 'g', ARGV[6]}
      local function add(field, value)
        fields[#fields + 1] = field
        fields[#fields + 1] = value
      end
      local isHold = ARGV[2] == 'hold'
      local isSigned = ARGV[9] ~= ''
      if ARGV[2] == 'open' or isHold then add('r', ARGV[7]) end
      if isHold then
        add('a', ARGV[10])
        add('e', ARGV[11])
        add('w', ARGV[12])
      end
      if isSigned then
        add('t', ARGV[8])
        add('m', ARGV[9])
      end
      append(ARGV[1], unpack(fields))
      if ARGV[2] == 'open' or isHold then
        local kept = ARGV[4] .. ' ' .. ARGV[6] .. ' ' ..
          string.format('%.0f', now + tonumber(ARGV[7]))
        if isSigned then kept = kept .. ' ' .. ARGV[8] .. ' ' .. ARGV[7] .. ' ' .. ARGV[9] end
        if isHold then
          place = place .. '\\nhold'
          kept = kept .. '\\n' .. ARGV[7] .. ' ' .. ARGV[10] .. ' ' .. ARGV[11] .. '\\n' .. ARGV[12]
        end
        redis.call('HSET', KEYS[3], place, kept)
      else
        redis.call('HDEL', KEYS[3], place)
      end
      return 1
      """

  /// Publishes a command, if in the place of each of its parts is still what its relay has judged.
  ///
  /// It answers with nothing then, and otherwise with the digest and the beginning of what is there, for
  /// each part. The relay judges which is later, because a script can check no signature.
  ///
  /// - Keys: stream, count, commands.
  /// - Arguments: about how long the stream may become, the host that gave it, lineage, breaker,
  ///   stamp, the command; then, for each part, the aspect, the text to keep, and the SHA-1 digest of what is
  ///   there, which is empty for nothing.
  package static let command =
    append + """
      local found, isAsKnown = {}, true
      for i = 7, #ARGV, 3 do
        local kept = redis.call('HGET', KEYS[3], ARGV[4] .. '\\n' .. ARGV[i])
        local digest = kept and redis.sha1hex(kept) or ''
        if digest ~= ARGV[i + 2] then isAsKnown = false end
        found[#found + 1] = digest
        found[#found + 1] = string.sub(kept or '', 1, 70000)
      end
      if not isAsKnown then return found end
      append(ARGV[1], 'k', 'command', 'h', ARGV[2], 'l', ARGV[3], 'b', ARGV[4], 's', ARGV[5],
        'c', ARGV[6])
      for i = 7, #ARGV, 3 do
        redis.call('HSET', KEYS[3], ARGV[4] .. '\\n' .. ARGV[i], ARGV[i + 1])
      end
      return {}
      """

  /// Deletes evidence that is out of date, unless it has been renewed meanwhile.
  ///
  /// - Keys: evidence.
  /// - Arguments: each field and its value.
  static let forget = """
    for i = 1, #ARGV, 2 do
      if redis.call('HGET', KEYS[1], ARGV[i]) == ARGV[i + 1] then
        redis.call('HDEL', KEYS[1], ARGV[i])
      end
    end
    return 1
    """

  /// Puts a farewell in the place of a host's mark and of its descriptions of breakers.
  ///
  /// - Keys: hosts, the host's own.
  /// - Arguments: the host, the farewell, the SHA-1 digest of the mark that it replaces.
  static let leave = """
    local own = redis.call('HGET', KEYS[2], '')
    if (own and redis.sha1hex(own) or '') ~= ARGV[3] then return 0 end
    redis.call('ZREM', KEYS[1], ARGV[1])
    redis.call('DEL', KEYS[2])
    redis.call('HSET', KEYS[2], '', ARGV[2])
    redis.call('EXPIRE', KEYS[2], 86400)
    return 1
    """

  /// Deletes keys of a type or a size that no relay has given them, and answers with their names.
  ///
  /// No relay could work with them, and none has written what they hold. Of a stream, only the last
  /// entry matters: relays that connect do not read those before it.
  ///
  /// - Keys: any.
  /// - Arguments: for each key, what it has to be.
  static let clear = """
    local readings = {stream = {'XREVRANGE', '+', '-', 'COUNT', '1'}, text = {'GET'},
      hash = {'HGET', ''}, host = {'HGET', ''}, set = {'ZSCORE', ''}}
    local longest = {text = 1024, host = 16384}
    local function isStrange(kind, answer)
      if type(answer) == 'table' and answer.err then
        return string.find(answer.err, 'WRONGTYPE') ~= nil
      end
      if kind ~= 'stream' then return answer and longest[kind] and #answer > longest[kind] end
      local fields = answer[1] and answer[1][2] or {}
      if #fields > 64 then return true end
      local bytes = 0
      for _, text in ipairs(fields) do bytes = bytes + #text end
      return bytes > 1048576
    end
    local cleared = {}
    for i, key in ipairs(KEYS) do
      local words = readings[ARGV[i]]
      if isStrange(ARGV[i], redis.pcall(words[1], key, unpack(words, 2))) then
        redis.call('DEL', key)
        cleared[#cleared + 1] = key
      end
    end
    return cleared
    """

  /// Reads a piece of a hash, and deletes what is longer than anything that a relay writes.
  ///
  /// It answers with the next cursor, fields and values, and how many it has deleted.
  ///
  /// - Keys: a hash.
  /// - Arguments: the cursor, about how many fields to read, and how long a field and its value may be.
  static let scan = """
    local answer = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
    local found, kept, deleted = answer[2], {}, 0
    for i = 1, #found, 2 do
      if #found[i] + #found[i + 1] > tonumber(ARGV[3]) then
        redis.call('HDEL', KEYS[1], found[i])
        deleted = deleted + 1
      else
        kept[#kept + 1] = found[i]
        kept[#kept + 1] = found[i + 1]
      end
    end
    return {answer[1], kept, deleted}
    """

  static let all = [beat, evidence, command, forget, leave, clear, scan]
}

/// The rights that a relay needs on the server.
package enum FleetRights {
  /// One of each command that a relay and its scripts run, on each kind of key that they run it on.
  ///
  /// The commands would do harm, so they are only queued in a transaction that never runs. The server
  /// refuses to queue a command that its user may not run, or that it cannot run now.
  package static func commands(_ keys: FleetKeys, host name: String) -> [[String]] {
    let host = keys.host(name)
    return [
      ["INFO", "server"], ["ROLE"], ["TIME"], ["SCRIPT", "LOAD", "return 1"],
      ["EVALSHA", String(repeating: "0", count: 40), "1", keys.count],
      ["GET", keys.epoch], ["GET", keys.count], ["SET", keys.epoch, ""], ["SET", keys.count, ""],
      ["XADD", keys.stream, "*", "v", "1"], ["XREAD", "STREAMS", keys.stream, "0-0"],
      ["XREVRANGE", keys.stream, "+", "-"],
      ["HGET", keys.commands, ""], ["HSET", keys.commands, "", ""], ["HSCAN", keys.commands, "0"],
      ["HGET", keys.evidence, ""], ["HSET", keys.evidence, "", ""], ["HDEL", keys.evidence, ""],
      ["HDEL", keys.commands, ""], ["DEL", keys.stream],
      ["HSCAN", keys.evidence, "0"],
      ["HGET", host, ""], ["HSET", host, "", ""], ["HDEL", host, ""], ["HGETALL", host],
      ["DEL", host], ["EXPIRE", host, "1"],
      ["ZADD", keys.hosts, "0", ""], ["ZREM", keys.hosts, ""], ["ZSCORE", keys.hosts, ""],
      ["ZRANGE", keys.hosts, "0", "0"], ["ZCOUNT", keys.hosts, "0", "0"],
      ["ZREMRANGEBYSCORE", keys.hosts, "0", "0"],
    ]
  }
}
