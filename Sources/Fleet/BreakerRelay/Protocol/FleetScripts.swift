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

  /// The evidence with its proofs, in a fleet with a key.
  package var sealed: String { prefix + "sealed" }

  /// When each host was last seen, in milliseconds of the server's clock.
  package var hosts: String { prefix + "hosts" }

  /// The descriptions of a host, in an empty field, and of its breakers, by their names.
  package func host(_ name: String) -> String { prefix + "host:" + name }

  /// The field for the description of a host; no breaker has an empty name.
  package static let ownField = ""

  /// The field for the commands that a host has refused; no breaker has a line break in its name.
  package static let refusalsField = "\nrefused"
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

  /// Shows that a host is alive.
  ///
  /// It answers with the time, the epoch, the number of the latest message and how many hosts were
  /// seen recently; or, if another relay uses the name, with `taken`, the other store's lineage, what
  /// it says about itself and the time. A relay that has just started may replace an earlier one of
  /// the same store. A run that has been seen before may not: if the name is another run's now, the
  /// host was copied. A relay that has found the other description not to count replaces it.
  ///
  /// An epoch that no relay can have written counts as lost.
  ///
  /// A beat may have waited in a server that was stopped, so it is as old as its sending.
  ///
  /// The description that says how far the host has read replaces the plain one only if the server
  /// has that very message. After a failover, the number may stand for another one, which the host
  /// has not seen.
  ///
  /// - Keys: count, epoch, hosts, the host's own, stream.
  /// - Arguments: the host, its plain description, its lineage, its run, how many milliseconds a host
  ///   may be silent, a new epoch, whether this run has been seen before (1 or 0; 2 if another
  ///   description does not count), when the beat was sent; then, if the host has read the state, the
  ///   epoch, number and entry up to which it has read, and the description that says so.
  package static let beat =
    now + """
      local own = redis.call('HGET', KEYS[4], '')
      local before = tonumber(redis.call('ZSCORE', KEYS[3], ARGV[1]) or '0')
      if own and ARGV[7] ~= '2' then
        local seen = before
        local run = string.match(own, '"run":"(%x+)"')
        local lineage = string.match(own, '"lineage":"(%x+)"')
        local isOther = lineage ~= ARGV[3] or ARGV[7] == '1'
        if run ~= ARGV[4] and isOther and now - seen < tonumber(ARGV[5]) then
          return {'taken', lineage or '', string.sub(own, 1, 4096), string.format('%.0f', now)}
        end
      end
      local epoch = redis.call('GET', KEYS[2])
      if not epoch or #epoch > 64 or not string.find(epoch, '^%w+$') then
        redis.call('SET', KEYS[2], ARGV[6])
      end
      local seen = math.min(now, tonumber(ARGV[8]))
      if before > seen and before <= now then seen = before end
      if now - seen > 86400000 then seen = now end
      redis.call('ZADD', KEYS[3], string.format('%.0f', seen), ARGV[1])
      redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', string.format('(%.0f', now - 86400000))
      local description = ARGV[2]
      if ARGV[9] and redis.call('GET', KEYS[2]) == ARGV[9] then
        if ARGV[11] == '0-0' then
          local isEmpty = #redis.call('XREVRANGE', KEYS[5], '+', '-', 'COUNT', '1') == 0
          if isEmpty and (redis.call('GET', KEYS[1]) or '0') == ARGV[10] then
            description = ARGV[12]
          end
        else
          local entry = redis.call('XREVRANGE', KEYS[5], ARGV[11], ARGV[11])[1]
          local fields = entry and entry[2] or {}
          for i = 1, #fields, 2 do
            if fields[i] == 'n' and fields[i + 1] == ARGV[10] then description = ARGV[12] end
          end
        end
      end
      if own ~= description then redis.call('HSET', KEYS[4], '', description) end
      redis.call('EXPIRE', KEYS[4], 86400)
      local first = string.format('%.0f', now - tonumber(ARGV[5]))
      return {string.format('%.0f', now), redis.call('GET', KEYS[2]),
        redis.call('GET', KEYS[1]) or '0', redis.call('ZCOUNT', KEYS[3], first, '+inf')}
      """

  /// Publishes that a breaker has opened or is no longer open, and records it as evidence.
  ///
  /// - Keys: stream, count, evidence, sealed evidence.
  /// - Arguments: about how long the stream may become, the kind of message, host, lineage, breaker,
  ///   generation, for how many milliseconds it stays open; then, if it is signed, when it was sent
  ///   and the seal.
  static let evidence =
    now + append + """
      local place = ARGV[5] .. '\\n' .. ARGV[3]
      local fields = {'k', ARGV[2], 'h', ARGV[3], 'l', ARGV[4], 'b', ARGV[5], 'g', ARGV[6]}
      local function add(field, value)
        fields[#fields + 1] = field
        fields[#fields + 1] = value
      end
      if ARGV[2] == 'open' then add('r', ARGV[7]) end
      if ARGV[9] then
        add('t', ARGV[8])
        add('m', ARGV[9])
      end
      append(ARGV[1], unpack(fields))
      redis.call('HDEL', KEYS[4], place)
      if ARGV[2] == 'open' then
        local open = ARGV[4] .. ' ' .. ARGV[6] .. ' ' ..
          string.format('%.0f', now + tonumber(ARGV[7]))
        redis.call('HSET', KEYS[3], place, open)
        if ARGV[9] then
          redis.call('HSET', KEYS[4], place,
            open .. ' ' .. ARGV[8] .. ' ' .. ARGV[7] .. ' ' .. ARGV[9])
        end
      else
        redis.call('HDEL', KEYS[3], place)
      end
      return 1
      """

  /// Publishes a command, unless the server knows a later one about each of its aspects.
  ///
  /// It answers with the host whose command is later; with nothing if it has published the command, or
  /// if the server knows it already; or with an exclamation mark, which cannot be a host, if the stamp
  /// is more than a day ahead of the server's clock, so that other hosts would refuse it. A known
  /// command whose stamp is also ahead of the asking host's clock is invalid and is replaced. So is
  /// one that the asking host has found to be wrongly signed or damaged, if its SHA-1 digest is still
  /// the same. With the command, the server keeps the number of its message.
  ///
  /// - Keys: stream, count, commands.
  /// - Arguments: about how long the stream may become, the host that gave it, lineage, breaker,
  ///   stamp, the command, its age in milliseconds, the time on the clock of the asking host, when it
  ///   was sent and the seal, which are empty if it is not signed; then each aspect, the part of the
  ///   command about it, and the digest of what may be replaced whatever its stamp is.
  package static let command =
    now + append + """
      if tonumber(ARGV[5]) > now + 86400000 then return '!' end
      local latest = math.max(now, tonumber(ARGV[8])) + 86400000
      local function isLater(stamp, host, than)
        local otherStamp, otherHost = string.match(than, '^(%d+) (%S+) ')
        if not otherStamp then return true end
        stamp, otherStamp = tonumber(stamp), tonumber(otherStamp)
        if otherStamp > latest then return true end
        if stamp ~= otherStamp then return stamp > otherStamp end
        for i = 1, math.min(#host, #otherHost) do
          local left, right = string.byte(host, i), string.byte(otherHost, i)
          if left ~= right then return left > right end
        end
        return #host > #otherHost
      end
      local given = string.format('%.0f', now - tonumber(ARGV[7]))
      local told = nil
      local winner = ''
      local fields = {'k', 'command', 'h', ARGV[2], 'l', ARGV[3], 'b', ARGV[4], 's', ARGV[5],
        'c', ARGV[6]}
      if ARGV[10] ~= '' then
        for i, field in ipairs({'t', ARGV[9], 'm', ARGV[10]}) do fields[#fields + 1] = field end
      end
      for i = 11, #ARGV, 3 do
        local place = ARGV[4] .. '\\n' .. ARGV[i]
        local known = redis.call('HGET', KEYS[3], place)
        local mayReplace = known and ARGV[i + 2] ~= '' and redis.sha1hex(known) == ARGV[i + 2]
        if not known or mayReplace or isLater(ARGV[5], ARGV[2], known) then
          if not told then told = append(ARGV[1], unpack(fields)) end
          redis.call('HSET', KEYS[3], place, ARGV[5] .. ' ' .. ARGV[2] .. ' ' .. given .. ' ' ..
            string.sub(ARGV[i + 1], 1, -2) .. ',"n":' .. told .. '}')
        else
          local stamp, host = string.match(known, '^(%d+) (%S+) ')
          if tonumber(stamp) ~= tonumber(ARGV[5]) or host ~= ARGV[2] then winner = host end
        end
      end
      return told and '' or winner
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

  /// Removes the description of a host, unless it is from another run of its relay.
  ///
  /// - Keys: hosts, the host's own.
  /// - Arguments: the host, its run.
  static let leave = """
    local own = redis.call('HGET', KEYS[2], '')
    if own and string.match(own, '"run":"(%x+)"') ~= ARGV[2] then return 0 end
    redis.call('ZREM', KEYS[1], ARGV[1])
    redis.call('DEL', KEYS[2])
    return 1
    """

  /// Removes the description of a host that is gone, but not of one that was seen lately.
  ///
  /// It answers with nothing if there is no such host, and otherwise with how many milliseconds it has
  /// been silent; it is forgotten if that is as long as the arguments demand.
  ///
  /// - Keys: hosts, the host's own.
  /// - Arguments: the host, how many milliseconds it must have been silent.
  static let dismiss =
    now + """
      local seen = redis.call('ZSCORE', KEYS[1], ARGV[1])
      if not seen and redis.call('DEL', KEYS[2]) == 0 then return '' end
      local silence = math.max(0, now - tonumber(seen or '0'))
      if silence >= tonumber(ARGV[2]) then
        redis.call('ZREM', KEYS[1], ARGV[1])
        redis.call('DEL', KEYS[2])
      end
      return string.format('%.0f', silence)
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
    local longest = {text = 1024, host = 4096}
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
      ["HDEL", keys.commands, ""], ["HSET", keys.sealed, "", ""], ["DEL", keys.stream],
      ["HSCAN", keys.evidence, "0"],
      ["HGET", host, ""], ["HSET", host, "", ""], ["HDEL", host, ""], ["HGETALL", host],
      ["DEL", host], ["EXPIRE", host, "1"],
      ["ZADD", keys.hosts, "0", ""], ["ZREM", keys.hosts, ""], ["ZSCORE", keys.hosts, ""],
      ["ZRANGE", keys.hosts, "0", "0"], ["ZCOUNT", keys.hosts, "0", "0"],
      ["ZREMRANGEBYSCORE", keys.hosts, "0", "0"],
    ]
  }
}
